// Answers of searches that were made before their scan asks for them: by the plan node that reads ahead on the outer
// side of a nested loop (am/ahead), for the index scan on its inner side. A search is known by the bytes of its
// request; so a wrong guess is never used. The scan itself notes which requests it makes, and the node makes the same
// ones for the rows that follow. PG dialect. Used by worker_scan.cpp (the scan) and ahead_search.cpp (the node).
#pragma once

#include "am/ahead/recent_pages.hpp"
#include "am/scan/worker_ask.hpp"

namespace vectorgpu::am
{

/// A request that a scan has made: all but the query. The scan's later ones are steps (batch_plan.hpp).
struct AheadRequest
{
	ScanState state; // as the scan was; its pointers are not valid, but for heap and snapshot
	uint64 k;
	uint8 *program; // conditions
	Size n_program_bytes;
	uint64 n_uses; // by scans since requests were made ahead last
};

/// An answer.
struct AheadAnswer
{
	const char *key; // [n_key_bytes], see ahead_key
	Size n_key_bytes;
	uint64 hash;
	uint32 request; // its number
	bool answered;
	uint64 number; // in AheadTable::wanted
	wire::ReplyHeader header;
	engine::Neighbor *rows; // [header.n_items]
};

constexpr uint32 kMostAheadRequests = 4; // of a scan
constexpr uint64 kMostAheadRows = 4000;  // of one search: must fit one reply

struct AheadTable
{
	MemoryContext context;                      // in which the table lives
	MemoryContext answer_context;               // of the answers, reset before searches are made ahead
	ScanCounters *counters;                     // of searches made ahead; read by no one
	ScanState *version;                         // of which the answers are: its manifest and tombstones
	CommandId command;                          // of the snapshot then
	AheadRequest *requests[kMostAheadRequests]; // [n_requests]
	uint32 n_requests;
	uint32 n_made;        // by the present scan
	uint64 n_scans;       // since requests were made ahead last
	AheadAnswer *answers; // [n_places], open hashing; a place without a key is free
	uint64 n_places;      // a power of 2; 0: none
	AheadAnswer **wanted; // [n_answers] in the order in which they are likely to be asked for
	uint64 n_answers;
	uint64 n_searches;  // made ahead, in all
	uint64 n_hits;      // of them, those that a scan asked for; twice if two did
	Size page_bytes;    // that `pages` may take
	RecentPages *pages; // of the table, once many answers have been asked for; null: not yet, or not known
};

/// Make a table in the current context.
AheadTable *ahead_make();

/// Let the scan look into the table; null: no longer. The scan must have begun.
void ahead_set(IndexScanDesc scan, AheadTable *table);
AheadTable *ahead_of(IndexScanDesc scan);

/// True if answers for the scan's table have been made ahead: its search is among them.
bool ahead_has_answers(const ScanState *state);

/// Start the scan, whose keys are set, and note the request that its first batch will make, if it can be made ahead. To
/// fetch rows, the scan has to begin anew.
void ahead_foresee(IndexScanDesc scan, AheadTable *table);

/// Fill in ask from the table, if it has the answer. Else notes the request, if it may be made ahead for other queries.
bool ahead_answer(Relation index, ScanState *state, Ask *ask);

/// A scan that looks into the table returns this row next: let its fetch find it.
void ahead_hold_page(AheadTable *table, IndexScanDesc scan, RowId row);

/// The bytes that tell a request from others, palloc'd: the query, then the request without its version, probes and
/// conditions. Null if a page was foreign. state->query: the query. search and probes [kMaxSegments] are set as for the
/// request.
char *ahead_key(Relation index, const ScanState *state, uint64 k, const uint8 *program, Size n_program_bytes,
	wire::SearchRequest *search, wire::SegmentProbes *probes, Size *n_bytes);

/// Forget all answers, and make room for n.
void ahead_reserve(AheadTable *table, uint64 n);

/// The place of a key; new ones have no answer. Null: it is there already.
AheadAnswer *ahead_insert(AheadTable *table, const char *key, Size n_bytes);

} // namespace vectorgpu::am
