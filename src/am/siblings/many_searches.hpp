// Searches of one version of an index by the worker, many in a request, for those who have many queries: joins read
// ahead (am/ahead), the k-NN graph and vectorgpu_join (am/functions). PG dialect.
#pragma once

#include "am/scan/worker_ask.hpp"
#include "bridge/search_many.hpp"

namespace vectorgpu::am
{

/// Make the state of a scan of the index, in the version that is read here, for searches of its first round; the
/// snapshot must be set. It and all that it needs are in the current context.
ScanState *many_state(Relation index, Relation heap, Snapshot snapshot);

/// The searches, by number, as their maker implements them.
struct ManySearches
{
	Relation index;
	ScanState *state; // many_state, or as it
	bridge::SearchMany *many;
	wire::CopyKey key;

	/// Add the search to the request by `put`. False: it has no room, or the search cannot be made.
	virtual bool add(uint64 number) = 0;

	/// Called when a reply has come. False: its answers are of no use.
	virtual bool begin_answers() { return true; }

	/// Take an answer: rows [header.n_items], not aligned, not checked. False: they can be no answer.
	virtual bool take(uint64 number, const wire::ReplyHeader &header, const void *rows) = 0;

	/// Add a search: its request, probes [search.n_probes], program [search.program_bytes] and query.
	bool put(const wire::SearchRequest &search, const void *probes, const void *program, const char *query);
};

/// Begin. False: the worker is not there, or would not answer.
bool many_open(ManySearches *searches);

/// Make the searches first to n - 1. Returns the first one whose copy was outdated or missing, behind which none may
/// have been made; n if there is none. detail: of the message if the worker does not answer. *failed is set then, and
/// answers may be missing.
uint64 many_search(ManySearches *searches, uint64 first, uint64 n, const char *detail, bool *failed);

} // namespace vectorgpu::am
