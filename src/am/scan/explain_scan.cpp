// See explain_scan.hpp. The names of the properties are documented in docs/explain.md.
#include "am/scan/explain_scan.hpp"

#include "am/method/index_access.hpp"
#include "am/scan/scan_state.hpp"

extern "C"
{
#include "access/relscan.h"
#include "lib/stringinfo.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr double kNsPerMs = 1000 * 1000;
constexpr const char *kOutOfReach = "recall target out of reach";

const char *
bypass_name(Bypass bypass)
{
	static const char *const kNames[] = {"none", "setting_off", "no_order", "temporary", "small", "access_method",
		"all_rows", "delta", "long_query", "conditions", "returned"};

	static_assert(sizeof(kNames) / sizeof(kNames[0]) == static_cast<size_t>(Bypass::kCount));
	return kNames[static_cast<int>(bypass)];
}

const char *
engine_text(wire::EngineKind engine)
{
	return engine == wire::EngineKind::kCuda ? "cuda" : "cpu";
}

const char *
answered_by(const ScanCounters *counters)
{
	if (counters->n_worker_batches == 0)
		return counters->n_backend_batches == 0 ? "nobody" : "backend";
	return counters->n_backend_batches == 0 ? "worker" : "worker and backend";
}

/// How the segments' rows that meet conditions on key columns were searched.
const char *
filter_way(const ScanCounters *counters)
{
	static const char *const kNames[] = {"list", "mask", "recheck", "lists", "graph"}; // by bit
	StringInfoData list;

	initStringInfo(&list);
	for (size_t i = 0; i < lengthof(kNames); i++)
		if ((counters->filter_ways & (1 << i)) != 0)
			appendStringInfo(&list, "%s%s", list.len > 0 ? " and " : "", kNames[i]);
	return list.len > 0 ? list.data : "none";
}

const char *
bypass_name_at(int i)
{
	return bypass_name(static_cast<Bypass>(i));
}

const char *
fallback_name_at(int i)
{
	return bridge::fallback_name(static_cast<bridge::Fallback>(i));
}

/// A line as "Fallback: loading (3 batches), silent (1 batch)", of what was counted; none if nothing was.
void
text_counts(ExplainState *es, const char *name, const uint64 *counts, int n, const char *(*item_name)(int) )
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < n; i++)
		if (counts[i] > 0)
			appendStringInfo(&list, "%s%s (" UINT64_FORMAT " %s)", list.len > 0 ? ", " : "", item_name(i), counts[i],
				counts[i] == 1 ? "batch" : "batches");
	if (list.len > 0)
		ExplainPropertyText(name, list.data, es);
}

void
text_number(ExplainState *es, const char *name, uint64 value)
{
	appendStringInfo(es->str, "  %s: " UINT64_FORMAT, name, value);
}

/// width_name: ApproximateMethod::width_name.
void
explain_as_text(const ScanCounters *counters, const char *width_name, ExplainState *es)
{
	pg::explain_begin_line(es);
	appendStringInfo(es->str, "Answered By: %s", answered_by(counters));
	if (counters->n_worker_batches > 0)
		appendStringInfo(es->str, "  Worker Engine: %s", engine_text(counters->engine));
	text_number(es, "Searches", counters->n_searches);
	if (counters->n_worker_batches > 0)
		text_number(es, "Worker Batches", counters->n_worker_batches);
	if (counters->n_ahead > 0)
		text_number(es, "Asked Ahead", counters->n_ahead);
	if (counters->n_backend_batches > 0)
		text_number(es, "Backend Batches", counters->n_backend_batches);
	appendStringInfoChar(es->str, '\n');
	pg::explain_begin_line(es);
	appendStringInfo(es->str, "Rows Asked: " UINT64_FORMAT, counters->n_asked);
	if (counters->largest_batch != counters->n_asked)
		text_number(es, "Largest Batch", counters->largest_batch);
	if (counters->n_rounds > 0)
		text_number(es, "Rounds", counters->n_rounds);
	if (width_name != nullptr && counters->most_width > 0)
	{
		text_number(es, psprintf("Least %s", width_name), counters->least_width);
		text_number(es, psprintf("Most %s", width_name), counters->most_width);
	}
	if (counters->n_exhaustive > 0)
		text_number(es, "Exhaustive", counters->n_exhaustive);
	if (counters->n_late > 0)
		text_number(es, "Late Rows", counters->n_late);
	if (counters->n_left_out > 0)
		text_number(es, "Rows Left Out", counters->n_left_out);
	if (counters->n_backend_batches > 0 || counters->n_compared > 0)
		text_number(es, "Compared", counters->n_compared);
	if (counters->n_worker_batches > 0 || counters->n_candidates > 0)
	{
		text_number(es, "Candidates", counters->n_candidates);
		text_number(es, "Rescored", counters->n_rescored);
	}
	if (counters->n_rescored_together > 0)
		text_number(es, "Rescored In Engine Batch", counters->n_rescored_together);
	if (counters->has_filter)
	{
		text_number(es, "Passing Rows", counters->n_passing);
		appendStringInfo(es->str, "  Filter Way: %s", filter_way(counters));
		if (counters->n_worker_batches > 0)
			text_number(es, "Filter Cached", counters->n_filters_found);
	}
	text_number(es, "Delta Rows", counters->delta_rows);
	if (counters->n_shipped > 0)
		text_number(es, "Shipped", counters->n_shipped);
	appendStringInfoChar(es->str, '\n');
	if (counters->missed.target > 0)
	{
		pg::explain_begin_line(es);
		appendStringInfo(es->str, "Exhaustive Because: %s  Recall Wanted: %.3f  Recall Reached: %.3f\n", kOutOfReach,
			counters->missed.target, counters->missed.reached);
	}
	if (counters->n_worker_batches > 0 && es->timing)
	{
		pg::explain_begin_line(es);
		appendStringInfo(es->str, "Engine Time: %.3f ms  Largest Engine Batch: %u\n",
			static_cast<double>(counters->engine_ns) / kNsPerMs, counters->largest_engine_batch);
	}
	text_counts(es, "Worker Not Asked", counters->bypasses, static_cast<int>(Bypass::kCount), bypass_name_at);
	text_counts(es, "Fallback", counters->fallbacks, static_cast<int>(bridge::Fallback::kCount), fallback_name_at);
}

void
number(ExplainState *es, const char *name, uint64 value)
{
	ExplainPropertyUInteger(name, nullptr, value, es);
}

void
number_group(ExplainState *es, const char *name, const uint64 *counts, int n, const char *(*item_name)(int) )
{
	ExplainOpenGroup(name, name, true, es);
	for (int i = 0; i < n; i++)
		if (counts[i] > 0)
			number(es, item_name(i), counts[i]);
	ExplainCloseGroup(name, name, true, es);
}

/// The same in JSON, XML and YAML: every property, those that are zero as well, but widths only of access methods that
/// have one, and a recall target only if it was out of reach.
void
explain_as_properties(const ScanCounters *counters, const char *width_name, ExplainState *es)
{
	ExplainPropertyText("Answered By", answered_by(counters), es);
	if (counters->n_worker_batches > 0)
		ExplainPropertyText("Worker Engine", engine_text(counters->engine), es);
	number(es, "Searches", counters->n_searches);
	number(es, "Worker Batches", counters->n_worker_batches);
	number(es, "Asked Ahead", counters->n_ahead);
	number(es, "Backend Batches", counters->n_backend_batches);
	number(es, "Rows Asked", counters->n_asked);
	number(es, "Largest Batch", counters->largest_batch);
	number(es, "Rounds", counters->n_rounds);
	if (width_name != nullptr)
	{
		number(es, psprintf("Least %s", width_name), counters->least_width);
		number(es, psprintf("Most %s", width_name), counters->most_width);
	}
	number(es, "Exhaustive", counters->n_exhaustive);
	if (counters->missed.target > 0)
	{
		ExplainPropertyText("Exhaustive Because", kOutOfReach, es);
		ExplainPropertyFloat("Recall Wanted", nullptr, counters->missed.target, 3, es);
		ExplainPropertyFloat("Recall Reached", nullptr, counters->missed.reached, 3, es);
	}
	number(es, "Late Rows", counters->n_late);
	number(es, "Rows Left Out", counters->n_left_out);
	number(es, "Compared", counters->n_compared);
	number(es, "Candidates", counters->n_candidates);
	number(es, "Rescored", counters->n_rescored);
	number(es, "Rescored In Engine Batch", counters->n_rescored_together);
	if (counters->has_filter)
	{
		number(es, "Passing Rows", counters->n_passing);
		ExplainPropertyText("Filter Way", filter_way(counters), es);
		number(es, "Filter Cached", counters->n_filters_found);
	}
	number(es, "Delta Rows", counters->delta_rows);
	number(es, "Shipped", counters->n_shipped);
	if (es->timing)
	{
		ExplainPropertyFloat("Engine Time", "ms", static_cast<double>(counters->engine_ns) / kNsPerMs, 3, es);
		number(es, "Largest Engine Batch", counters->largest_engine_batch);
	}
	number_group(es, "Worker Not Asked", counters->bypasses, static_cast<int>(Bypass::kCount), bypass_name_at);
	number_group(es, "Fallback", counters->fallbacks, static_cast<int>(bridge::Fallback::kCount), fallback_name_at);
}

bool
ran(IndexScanDesc scan)
{
	return static_cast<const ScanState *>(scan->opaque)->counters->n_searches > 0;
}

void
explain(IndexScanDesc scan, ExplainState *es)
{
	const ScanState *state = static_cast<const ScanState *>(scan->opaque);
	const char *width_name = state->am->approximate != nullptr ? state->am->approximate->width_name : nullptr;

	if (es->format == EXPLAIN_FORMAT_TEXT)
		explain_as_text(state->counters, width_name, es);
	else
		explain_as_properties(state->counters, width_name, es);
}

} // namespace

const pg::ScanExplainer scan_explainer = {is_vectorgpu_index, ran, explain};

} // namespace vectorgpu::am
