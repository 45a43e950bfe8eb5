// Parsers of the bodies of build_messages.hpp. See codec_parts.hpp.
#include "common/limits.hpp"
#include "wire/codec_parts.hpp"

namespace vectorgpu::wire
{
namespace
{

ParseResult
parse_begin_lists(const uint8_t *body, size_t length, RequestView *view)
{
	const ParseResult result = only(body, length, &view->begin_lists);
	const BeginListsRequest &spec = view->begin_lists;

	if (result != ParseResult::kOk)
		return result;
	if (!shape_valid(spec.element, spec.metric, spec.dim) || spec.element == ElementType::kSet)
		return ParseResult::kType;
	if (!all_zero(spec.zero, sizeof(spec.zero)) || spec.n_clusters < 1 || spec.n_clusters > kMaxBuildLists ||
		!(spec.tolerance >= 0))
		return ParseResult::kField;
	return ParseResult::kOk;
}

ParseResult
check_begin_graph(const BeginGraphRequest &spec)
{
	if (!shape_valid(spec.element, spec.metric, spec.dim) || spec.element == ElementType::kSet ||
		(spec.element == ElementType::kBit && spec.code_bits != 0))
		return ParseResult::kType;
	if (spec.prune > 1 || spec.measure > 1 || spec.n_rows < 1 || spec.n_rows > kMaxBuildRows ||
		spec.degree < kMinGraphDegree || spec.degree > kMaxGraphDegree || spec.zero != 0)
		return ParseResult::kField;
	// 8 and 16 are of neither kind.
	if ((spec.code_bits & (spec.code_bits - 1)) != 0 || spec.code_bits > kMaxHashBits ||
		(spec.code_bits > kMaxRabitqCodeBits && spec.code_bits < kMinHashBits))
		return ParseResult::kField;
	return ParseResult::kOk;
}

ParseResult
parse_begin_codes(const uint8_t *body, size_t length, RequestView *view)
{
	const ParseResult result = only(body, length, &view->begin_codes);
	const BeginCodesRequest &spec = view->begin_codes;

	if (result != ParseResult::kOk)
		return result;
	if (spec.kind != CodesKind::kSq8 && spec.kind != CodesKind::kPq && spec.kind != CodesKind::kRabitq)
		return ParseResult::kType;
	if (spec.zero != 0 || spec.zero1 != 0 || spec.opq > 1)
		return ParseResult::kField;
	if (spec.kind != CodesKind::kPq && (spec.opq != 0 || spec.pq_m != 0))
		return ParseResult::kField;
	if (spec.kind == CodesKind::kSq8)
		return spec.bits == 0 ? ParseResult::kOk : ParseResult::kField;
	if (spec.kind == CodesKind::kRabitq)
		return spec.bits >= 1 && spec.bits <= 8 && spec.n_training == 0 ? ParseResult::kOk : ParseResult::kField;
	return (spec.bits == 4 || spec.bits == 8) && spec.pq_m >= 1 && spec.pq_m <= static_cast<uint32_t>(kMaxDimensions)
		? ParseResult::kOk
		: ParseResult::kField;
}

ParseResult
parse_begin_counts(const uint8_t *body, size_t length, RequestView *view)
{
	const ParseResult result = only(body, length, &view->begin_counts);
	const BeginCountsRequest &spec = view->begin_counts;

	if (result != ParseResult::kOk)
		return result;
	return spec.n_queries < 1 || spec.batch_rows < 1 || spec.stride < 1 || spec.zero != 0 ? ParseResult::kField
																						  : ParseResult::kOk;
}

ParseResult
parse_begin_graph(const uint8_t *body, size_t length, RequestView *view)
{
	const ParseResult result = only(body, length, &view->begin_graph);

	return result != ParseResult::kOk ? result : check_begin_graph(view->begin_graph);
}

ParseResult
parse_begin_insert(const uint8_t *body, size_t length, RequestView *view)
{
	const ParseResult result = only(body, length, &view->begin_insert);
	const BeginInsertRequest &spec = view->begin_insert;

	if (result != ParseResult::kOk)
		return result;
	if (spec.n_base < 1 || spec.n_base > kMaxBuildRows || spec.n_kept > spec.n_base ||
		spec.n_kept > spec.graph.n_rows || spec.graph.code_bits != 0)
		return ParseResult::kField;
	return check_begin_graph(spec.graph);
}

bool
has_position(RequestType type)
{
	return type == RequestType::kAssign || type == RequestType::kCountCodes || type == RequestType::kAddGraphRows ||
		type == RequestType::kAddBaseEdges || type == RequestType::kAddBaseNumbers;
}

ParseResult
parse_build_rows(const uint8_t *body, size_t length, RequestView *view)
{
	BuildRowsRequest &rows = view->build_rows;

	if (length < sizeof(BuildRowsRequest))
		return ParseResult::kTruncated;
	copy_out(body, &rows);
	if (rows.n_rows == 0 || rows.skipped % kRowsAlignment != 0 || rows.position >= kMaxRowNumber ||
		(rows.position != 0 && !has_position(view->header.type)))
		return ParseResult::kField;

	if (rows.skipped > length - sizeof(BuildRowsRequest))
		return ParseResult::kLength;

	const size_t rest = length - sizeof(BuildRowsRequest) - rows.skipped;

	if (rest == 0 || rest % rows.n_rows != 0)
		return ParseResult::kLength;
	view->row_bytes = rest / rows.n_rows;
	view->vectors = body + sizeof(BuildRowsRequest) + rows.skipped;
	return ParseResult::kOk;
}

/// The path's bytes may still change: the caller copies and looks at them.
ParseResult
parse_graph_pages(const uint8_t *body, size_t length, RequestView *view)
{
	AddGraphPagesRequest &pages = view->graph_pages;

	if (length < sizeof(AddGraphPagesRequest))
		return ParseResult::kTruncated;
	copy_out(body, &pages);
	if (pages.n_rows == 0 || pages.position >= kMaxRowNumber || pages.first >= kMaxRowNumber ||
		pages.page_bytes > kMostPageBytes || pages.file_pages == 0 || pages.tag_offset >= pages.page_bytes ||
		pages.page_bytes - pages.tag_offset <= sizeof(WirePageTag) || pages.path_bytes == 0 ||
		pages.path_bytes > kMostPathBytes || pages.tag.checksum != 0 || pages.tag.position != 0 || pages.tag.used != 0)
		return ParseResult::kField;
	if (length - sizeof(AddGraphPagesRequest) != pages.path_bytes)
		return ParseResult::kLength;
	view->path = body + sizeof(AddGraphPagesRequest);
	return ParseResult::kOk;
}

ParseResult
parse_read_build(const uint8_t *body, size_t length, RequestView *view)
{
	const ParseResult result = only(body, length, &view->read_build);
	const ReadBuildRequest &read = view->read_build;

	if (result != ParseResult::kOk)
		return result;
	if (static_cast<uint32_t>(read.result) < 1 ||
		static_cast<uint32_t>(read.result) > static_cast<uint32_t>(BuildResult::kCounts))
		return ParseResult::kType;
	return read.n_bytes == 0 || read.n_bytes > kMaxAreaBytes || read.first >= kMaxRowNumber ? ParseResult::kField
																							: ParseResult::kOk;
}

} // namespace

ParseResult
parse_build_body(const uint8_t *body, size_t length, RequestView *view)
{
	switch (view->header.type)
	{
		case RequestType::kBeginLists:
			return parse_begin_lists(body, length, view);
		case RequestType::kBeginCodes:
			return parse_begin_codes(body, length, view);
		case RequestType::kBeginCounts:
			return parse_begin_counts(body, length, view);
		case RequestType::kBeginGraph:
			return parse_begin_graph(body, length, view);
		case RequestType::kBeginInsert:
			return parse_begin_insert(body, length, view);
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
			return parse_build_rows(body, length, view);
		case RequestType::kAddGraphPages:
			return parse_graph_pages(body, length, view);
		case RequestType::kReadBuild:
			return parse_read_build(body, length, view);
		case RequestType::kTrain:
		case RequestType::kTrainCodes:
		case RequestType::kStartGraph:
		case RequestType::kEndBuild:
			return nothing(length);
		default:
			return ParseResult::kType;
	}
}

} // namespace vectorgpu::wire
