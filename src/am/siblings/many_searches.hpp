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
	uint64 stale; // the first one whose copy was outdated or missing

	/// Add the search to the request by `put`. False: it has no room, or the search cannot be made.
	virtual bool add(uint64 number) = 0;

	/// Called when a reply has come. False: its answers are of no use.
	virtual bool begin_answers() { return true; }

	/// Take an answer: rows [header.n_items], not aligned, not checked. False: they can be no answer.
	virtual bool take(uint64 number, const wire::ReplyHeader &header, const void *rows) = 0;

	/// Add a search: its request, probes [search.n_probes], program [search.program_bytes] and query.
	bool put(const wire::SearchRequest &search, const void *probes, const void *program, const char *query);
};

/// A request for searches first to end - 1.
struct ManyRequest
{
	ManySearches *of;
	uint64 first;
	uint64 end;

	bool empty() const { return first == end; }
};

/// Requests that follow each other. They may be of several ManySearches: the worker then makes those of the next one
/// while answers of the one before are still missing.
struct ManyLine
{
	bridge::SearchMany *many;                // null: not begun
	MemoryContext context;                   // of its buffers
	ManyRequest sent[wire::kMostUnanswered]; // by the number of the request
	uint64 n_sent;
	uint64 n_answered;
	bool failed; // no more answers will come
};

/// Begin. False: the worker is not there, or would not answer. The line is zeroed at first, and keeps its buffers in a
/// child of `context`. If that is reset, the worker is told to give up what is missing.
bool many_open(ManySearches *searches, ManyLine *line, MemoryContext context);

/// Send the requests for the searches 0 to n - 1, and take the answers that come meanwhile. Those that are missing at
/// the end need not be waited for at once, but no other request of this process is to come before many_await.
/// detail: of the message if the worker does not answer; line->failed is set then, and answers may be missing. A copy
/// that is outdated or missing sets searches->stale, behind which searches may not have been made.
void many_start(ManyLine *line, ManySearches *searches, uint64 n, const char *detail);

/// Wait for the answers of the searches, or of all.
void many_await(ManyLine *line, ManySearches *searches, const char *detail);
void many_await_all(ManyLine *line, const char *detail);

/// End the line, and give up what is missing.
void many_close(ManyLine *line);

/// The same for one ManySearches, with no line of its own.
bool many_open(ManySearches *searches);

/// Make the searches first to n - 1. Returns the first one whose copy was outdated or missing, behind which none may
/// have been made; n if there is none. detail: of the message if the worker does not answer. *failed is set then, and
/// answers may be missing.
uint64 many_search(ManySearches *searches, uint64 first, uint64 n, const char *detail, bool *failed);

} // namespace vectorgpu::am
