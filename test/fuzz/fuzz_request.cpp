// libFuzzer target: a request as the worker sees it. The first 8 bytes are the sequence number in the slot, the rest is
// the request area. A request that the parser accepts must satisfy its guarantees.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "wire/codec.hpp"

using namespace vectorgpu;
using namespace vectorgpu::wire;

namespace
{

volatile uint64_t sink;

void
require(bool condition)
{
	if (!condition)
		std::abort();
}

/// Read every byte, so that the sanitizer sees one that is not there.
void
touch(const uint8_t *data, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += data[i];
	sink = sum;
}

/// The searches of a SEARCH_MANY: each lies inside the request.
void
search_each(const std::vector<uint8_t> &request, const uint8_t *data, size_t length, uint64_t sequence)
{
	size_t before = length + 1;
	RequestView view;

	require(data + length == request.data() + request.size());
	while (length > 0 && length < before)
	{
		before = length;
		if (parse_next_search(&data, &length, sequence, &view) != ParseResult::kOk)
			continue;
		require(view.search.n_rows == 0 && view.vector + view.vector_bytes == data);
		touch(view.vector, view.vector_bytes);
		touch(view.program, view.search.program_bytes);
	}
}

} // namespace

extern "C" int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t sequence = 0;
	RequestView view;

	if (size < sizeof(sequence))
		return 0;
	memcpy(&sequence, data, sizeof(sequence));

	const std::vector<uint8_t> request(data + sizeof(sequence), data + size); // of just that size

	if (parse_request(request.data(), request.size(), sequence, &view) != ParseResult::kOk)
		return 0;
	require(view.header.sequence == sequence && view.header.body_bytes + sizeof(RequestHeader) == request.size());
	if (view.header.type == RequestType::kSearchMany)
		search_each(request, view.searches, view.searches_bytes, sequence);
	switch (view.header.type)
	{
		case RequestType::kSearch:
			require(view.search.k >= 1 && view.search.k <= kMaxSearchK && view.search.dim >= 1);
			require(view.vector_bytes >= 1 &&
				(view.search.element == ElementType::kSet ||
					view.vector_bytes == vector_bytes(view.search.element, view.search.dim)));
			touch(view.vector, view.vector_bytes);
			require(view.search.n_probes <= kMaxSegmentsPerCopy);
			for (uint32_t i = 0; i < view.search.n_probes; i++)
				require(view.probes[i].segment > 0 && view.probes[i].probes > 0);
			require(view.search.program_bytes <= kMostProgramBytes);
			touch(view.program, view.search.program_bytes);
			touch(view.row_ids, view.search.n_rows * sizeof(uint64_t));
			touch(view.vectors, view.search.n_rows * view.row_bytes);
			break;
		case RequestType::kLoadRows:
		case RequestType::kAppend:
			require(view.rows.n_rows > 0); // of kind kMatch rows have no bytes
			touch(view.row_ids, view.rows.n_rows * sizeof(uint64_t));
			touch(view.vectors, view.rows.n_rows * view.row_bytes);
			break;
		case RequestType::kLoadStructure:
			require(view.structure.segment > 0 && view.structure.parameter > 0 && view.n_structure_bytes > 0);
			touch(view.structure_bytes, view.n_structure_bytes);
			break;
		case RequestType::kLoadKeys:
			require(view.keys.segment > 0 && view.n_structure_bytes > 0);
			touch(view.structure_bytes, view.n_structure_bytes);
			break;
		case RequestType::kCreate:
			require(view.key_columns.n_columns <= kMostKeyColumns && view.key_columns.n_streams <= kMostKeyStreams);
			break;
		case RequestType::kBeginLists:
			require(view.begin_lists.dim > 0 && view.begin_lists.n_clusters > 0);
			break;
		case RequestType::kBeginCodes:
			require(view.begin_codes.kind != CodesKind::kPq || view.begin_codes.pq_m > 0);
			break;
		case RequestType::kBeginCounts:
			require(
				view.begin_counts.n_queries > 0 && view.begin_counts.batch_rows > 0 && view.begin_counts.stride > 0);
			break;
		case RequestType::kBeginGraph:
			require(
				view.begin_graph.dim > 0 && view.begin_graph.n_rows > 0 && view.begin_graph.degree >= kMinGraphDegree);
			break;
		case RequestType::kAddTraining:
		case RequestType::kAddCentroids:
		case RequestType::kAddQueries:
		case RequestType::kAssign:
		case RequestType::kAddCodesTraining:
		case RequestType::kAddCodesModel:
		case RequestType::kAddCounted:
		case RequestType::kCountCodes:
		case RequestType::kAddGraphRows:
		case RequestType::kAddBaseEdges:
		case RequestType::kAddBaseNumbers:
		case RequestType::kAddBaseEntries:
			require(view.build_rows.n_rows > 0);
			touch(view.vectors, view.build_rows.n_rows * view.row_bytes);
			break;
		case RequestType::kAddGraphPages:
			require(view.graph_pages.n_rows > 0 && view.graph_pages.path_bytes > 0);
			touch(view.path, view.graph_pages.path_bytes);
			break;
		case RequestType::kTombstones:
			touch(view.bits, (static_cast<size_t>(view.tombstones.n_bits) + 7) / 8);
			break;
		case RequestType::kManifest:
			require(view.manifest.n_segments <= kMaxSegmentsPerCopy);
			for (uint32_t i = 1; i < view.manifest.n_segments; i++)
				require(view.segment_ids[i - 1] < view.segment_ids[i]);
			break;
		default:
			break;
	}
	return 0;
}
