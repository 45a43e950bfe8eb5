// See near_groups.hpp.
#include "engine/cpu/near_groups.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "engine/interface/list_builder.hpp"
#include "engine/ivf/coarse.hpp"
#include "engine/ivf/kmeans.hpp"
#include "engine/ivf/work.hpp"
#include "engine/recall/stratified.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr uint32_t kMostClusters = 16384; // the candidates of 1,024 groups are then 16 MB of marks
constexpr uint32_t kMostGroups = 1024;
constexpr uint32_t kIterations = 8;
constexpr uint32_t kAssignRows = 32768; // at a time
constexpr uint32_t kTrainingRows = 8;   // for each cluster
constexpr uint32_t kRounds = 3;         // of k-means
constexpr uint64_t kSeed = 0x6e656172;
constexpr uint64_t kClusterSeed = kSeed + 1;

/// Sort items by label: first [n_labels + 1] into order [items].
void
sort_by_label(
	const std::vector<uint32_t> &labels, uint32_t n_labels, std::vector<uint32_t> *first, std::vector<uint32_t> *order)
{
	first->assign(n_labels + size_t{1}, 0);
	order->resize(labels.size());
	for (const uint32_t label : labels)
		(*first)[label + 1]++;
	std::partial_sum(first->begin(), first->end(), first->begin());

	std::vector<uint32_t> next(first->begin(), first->end() - 1);

	for (uint32_t i = 0; i < labels.size(); i++)
		(*order)[next[labels[i]]++] = i;
}

} // namespace

bool
NearGroups::serve(const graph::GraphRows &rows, const NearGroupsTuning &tuning)
{
	const double n = rows.n_rows;

	return n * n * rows.spec.dim >= tuning.least_products && rows.spec.element != ElementType::kBit &&
		rows.spec.element != ElementType::kSet;
}

/// Assign rows [n] of the engine's element to their nearest centroids, in pieces.
Status
NearGroups::assign(Engine *engine, const DistanceSpec &spec, const std::vector<float> &centroids, const uint8_t *rows,
	uint32_t n, SearchControl *control, uint32_t *labels, float *scores) const
{
	const size_t row_bytes = vector_bytes(spec.element, spec.dim);
	ListBuildSpec build;
	std::unique_ptr<ListBuilder> builder;

	build.rows = spec;
	build.n_clusters = n_clusters_;

	Status status = engine->make_list_builder(build, control, &builder);

	if (status.is_ok())
		status = builder->add_centroids(centroids.data(), n_clusters_);
	for (uint32_t first = 0; status.is_ok() && first < n; first += kAssignRows)
	{
		if (control->stop.load(std::memory_order_relaxed))
			return Status::error(StatusCode::kCancelled, "canceled");
		status = builder->assign(
			first, rows + first * row_bytes, std::min(kAssignRows, n - first), labels + first, scores + first);
	}
	return status;
}

/// Begins with random rows: k-means++ would take longer than all else. Clusters with hardly any rows move to rows that
/// are far from their centroids, so that hardly any rows are.
Status
NearGroups::make_clusters(
	Engine *engine, const graph::GraphRows &rows, SearchControl *control, std::vector<float> *centroids)
{
	const uint32_t dim = graph::cluster_dim(rows.spec);
	const size_t row_bytes = vector_bytes(rows.spec.element, rows.spec.dim);
	graph::GraphRows plain = rows; // scaled to length 1 they would have to be copied

	plain.spec.metric = Metric::kL2;
	n_clusters_ = std::clamp(n_rows_ / std::max(tuning_.cluster_rows, 1u), 1u, kMostClusters);

	const uint32_t n = static_cast<uint32_t>(std::min<uint64_t>(n_rows_, uint64_t{kTrainingRows} * n_clusters_));
	std::vector<uint32_t> chosen(n);
	std::vector<uint8_t> sample(n * row_bytes);
	std::vector<float> floats(size_t{n} * dim);
	std::vector<uint32_t> labels(n);
	std::vector<float> scores(std::max<size_t>(n_rows_, n));

	for (uint32_t i = 0; i < n; i++)
	{
		chosen[i] = static_cast<uint32_t>(stratified_row(i, n, n_rows_, kClusterSeed));
		memcpy(sample.data() + i * row_bytes, rows.row(chosen[i]), row_bytes);
	}
	graph::rows_to_floats(plain, chosen.data(), n, floats.data());
	centroids->resize(size_t{n_clusters_} * dim);
	for (uint32_t c = 0; c < n_clusters_; c++)
		std::copy_n(&floats[stratified_row(c, n_clusters_, n, kSeed) * dim], dim, &(*centroids)[size_t{c} * dim]);
	for (uint32_t i = 0; i < kRounds; i++)
	{
		const Status status =
			assign(engine, plain.spec, *centroids, sample.data(), n, control, labels.data(), scores.data());

		if (!status.is_ok())
			return status;
		move_centroids(floats, dim, labels, scores, centroids);
	}
	labels_.resize(n_rows_);
	return assign(engine, plain.spec, *centroids, static_cast<const uint8_t *>(rows.rows), n_rows_, control,
		labels_.data(), scores.data());
}

/// A round of k-means over the sample floats [labels.size(), dim].
void
NearGroups::move_centroids(const std::vector<float> &floats, uint32_t dim, const std::vector<uint32_t> &labels,
	const std::vector<float> &scores, std::vector<float> *centroids) const
{
	constexpr uint32_t kFew = 1;
	std::vector<uint32_t> first;
	std::vector<uint32_t> by_cluster;
	std::vector<uint32_t> far; // rows, the farthest from their centroids first
	size_t n_moved = 0;

	sort_by_label(labels, n_clusters_, &first, &by_cluster);
	for (uint32_t i = 0; i < labels.size(); i++)
		if (std::isfinite(scores[i]))
			far.push_back(i);
	std::sort(far.begin(), far.end(),
		[&](uint32_t a, uint32_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
	for (uint32_t c = 0; c < n_clusters_; c++)
	{
		float *centroid = &(*centroids)[size_t{c} * dim];
		const uint32_t n = first[c + 1] - first[c];

		if (n <= kFew && n_moved < far.size())
		{
			std::copy_n(&floats[size_t{far[n_moved++]} * dim], dim, centroid);
			continue;
		}
		std::fill_n(centroid, dim, 0.0f);
		for (uint32_t i = first[c]; i < first[c + 1]; i++)
			for (uint32_t d = 0; d < dim; d++)
				centroid[d] += floats[size_t{by_cluster[i]} * dim + d] / static_cast<float>(n);
	}
}

Status
NearGroups::make_groups(const std::vector<float> &centroids, uint32_t dim, const ivf::Call &call)
{
	ivf::KMeansSpec spec;
	ivf::KMeansReport report;

	spec.dim = dim;
	spec.n_rows = n_clusters_;
	spec.n_clusters = std::clamp(n_rows_ / std::max(tuning_.group_rows, 1u), 1u, std::min(kMostGroups, n_clusters_));
	spec.seed = kSeed;
	spec.max_iterations = kIterations;
	spec.n_threads = call.n_threads;

	std::vector<uint8_t> work(ivf::kmeans_work_bytes(spec));
	std::vector<float> means(size_t{spec.n_clusters} * dim);
	std::vector<uint32_t> by_group; // clusters
	std::vector<uint32_t> first;
	graph::Outcome outcome = ivf::kmeans_train(
		spec, {centroids.data(), dim}, means.data(), nullptr, &report, work.data(), work.size(), call);

	if (outcome.is_ok())
	{
		std::vector<uint8_t> memory(ivf::coarse_bytes(dim, report.n_used));
		ivf::Coarse coarse;

		outcome = ivf::coarse_init(means.data(), report.n_used, dim, memory.data(), memory.size(), &coarse);
		group_of_.resize(n_clusters_);
		if (outcome.is_ok())
		{
			std::vector<uint8_t> assigning(ivf::coarse_assign_work_bytes(coarse, call.n_threads));

			outcome = ivf::coarse_assign(coarse, centroids.data(), dim, n_clusters_, group_of_.data(), nullptr,
				assigning.data(), assigning.size(), call);
		}
	}
	if (!outcome.is_ok())
		return Status::error(outcome.code, outcome.message);
	sort_by_label(labels_, n_clusters_, &cluster_first_, &by_cluster_);
	sort_by_label(group_of_, report.n_used, &first, &by_group);
	group_first_.assign(1, 0);
	by_group_.reserve(n_rows_);
	for (uint32_t g = 0; g < report.n_used; g++)
	{
		for (uint32_t i = first[g]; i < first[g + 1]; i++)
			by_group_.insert(by_group_.end(), by_cluster_.begin() + cluster_first_[by_group[i]],
				by_cluster_.begin() + cluster_first_[by_group[i] + 1]);
		group_first_.push_back(static_cast<uint32_t>(by_group_.size()));
	}
	return Status::ok();
}

/// Set near_clusters_ by a search of the centroids in a copy of their own.
Status
NearGroups::find_near_clusters(
	Engine *engine, const std::vector<float> &centroids, uint32_t dim, SearchControl *control)
{
	constexpr SegmentId kSegment = 1;
	const uint32_t n_near = tuning_.near_clusters;
	std::vector<RowId> ids(n_clusters_);
	std::vector<SearchQuery> queries(n_clusters_);
	std::vector<std::vector<Neighbor>> found;
	CopyId copy = 0;
	CopySpec spec;

	near_clusters_.resize(size_t{n_clusters_} * n_near);
	for (uint32_t c = 0; c < n_clusters_; c++)
		std::fill_n(near_clusters_.begin() + static_cast<ptrdiff_t>(size_t{c} * n_near), n_near, c);
	std::iota(ids.begin(), ids.end(), 0u);
	for (uint32_t c = 0; c < n_clusters_; c++)
	{
		queries[c].query = &centroids[size_t{c} * dim];
		queries[c].k = size_t{n_near} + 1;
	}
	spec.distance = {Metric::kL2, ElementType::kFloat32, dim};
	spec.kind = CopyKind::kRows;

	Status status = engine->create(spec, &copy);

	if (!status.is_ok())
		return status;
	status = engine->load_segment(copy, kSegment, {ids, centroids.data(), n_clusters_});
	if (status.is_ok())
		status = engine->seal_segment(copy, kSegment);
	if (status.is_ok())
		status = engine->search(copy, queries, &found, control);
	(void) engine->drop(copy);
	if (!status.is_ok())
		return status;
	for (uint32_t c = 0; c < n_clusters_; c++)
		for (uint32_t i = 0; i < std::min<size_t>(found[c].size(), n_near); i++)
			near_clusters_[size_t{c} * n_near + i] = static_cast<uint32_t>(found[c][i].row);
	return Status::ok();
}

Status
NearGroups::make(Engine *engine, const graph::GraphRows &rows, const NearGroupsTuning &tuning, SearchControl *control,
	const ivf::Call &call)
{
	std::vector<float> centroids;

	tuning_ = tuning;
	n_rows_ = rows.n_rows;

	Status status = make_clusters(engine, rows, control, &centroids);

	if (status.is_ok())
		status = make_groups(centroids, graph::cluster_dim(rows.spec), call);
	if (status.is_ok())
		status = find_near_clusters(engine, centroids, graph::cluster_dim(rows.spec), control);

	const uint32_t n_sampled = std::max(n_rows_ / std::max(tuning.sampled, 1u), 1u);

	for (uint32_t i = 0; i < n_sampled; i++)
		sample_.push_back(static_cast<uint32_t>(stratified_row(i, n_sampled, n_rows_, kSeed)));
	return status;
}

double
NearGroups::pairs_of(uint32_t group, uint32_t cluster) const
{
	return static_cast<double>(group_first_[group + 1] - group_first_[group]) *
		static_cast<double>(cluster_first_[cluster + 1] - cluster_first_[cluster]);
}

/// The clusters that the nearest rows of a group's rows lie in, and those that are candidates anyway.
std::vector<NearGroups::Candidate>
NearGroups::count(const uint32_t *nearest, uint32_t k) const
{
	std::vector<Candidate> counted;
	std::vector<uint32_t> counts[2];
	std::vector<std::vector<uint32_t>> sampled(n_groups()); // numbers within the sample

	for (uint32_t i = 0; i < sample_.size(); i++)
		sampled[group_of_[labels_[sample_[i]]]].push_back(i);
	for (uint32_t g = 0; g < n_groups(); g++)
	{
		for (std::vector<uint32_t> &half : counts)
			half.assign(n_clusters_, 0);
		for (size_t i = 0; i < sampled[g].size(); i++)
			for (uint32_t j = 0; j < k && nearest[size_t{sampled[g][i]} * k + j] != graph::kNoNode; j++)
				counts[i % 2][labels_[nearest[size_t{sampled[g][i]} * k + j]]]++;
		for (uint32_t c = 0; c < n_clusters_; c++)
			if (is_candidate(g, c) || counts[0][c] + counts[1][c] > 0)
				counted.push_back({g, c, counts[0][c], counts[1][c]});
	}
	return counted;
}

bool
NearGroups::choose(const uint32_t *nearest, uint32_t k)
{
	uint64_t n_judges = 0;
	uint64_t n_found = 0;

	is_candidate_.assign(size_t{n_groups()} * n_clusters_, 0);
	for (uint32_t c = 0; c < n_clusters_; c++)
	{
		is_candidate_[size_t{group_of_[c]} * n_clusters_ + c] = 1;
		for (uint32_t i = 0; i < tuning_.near_clusters; i++)
			is_candidate_[size_t{group_of_[c]} * n_clusters_ + near_clusters_[size_t{c} * tuning_.near_clusters + i]] =
				1;
	}

	std::vector<Candidate> counted = count(nearest, k);

	// Those first that find most for their pairs. Clusters that are candidates anyway may have no rows, and so no
	// order.
	std::stable_sort(counted.begin(), counted.end(),
		[this](const Candidate &a, const Candidate &b)
		{
			if (is_candidate(a.group, a.cluster) || is_candidate(b.group, b.cluster))
				return is_candidate(a.group, a.cluster) && !is_candidate(b.group, b.cluster);
			return a.n_chosen_by * pairs_of(b.group, b.cluster) > b.n_chosen_by * pairs_of(a.group, a.cluster);
		});
	for (const Candidate &one : counted)
		n_judges += one.n_judged_by;
	for (const Candidate &one : counted)
	{
		const bool own = is_candidate(one.group, one.cluster);

		if (!own && static_cast<double>(n_found) >= tuning_.share * static_cast<double>(n_judges))
			break;
		if (!own && one.n_chosen_by == 0)
			return false;
		is_candidate_[size_t{one.group} * n_clusters_ + one.cluster] = 1;
		n_found += one.n_judged_by;
	}
	return n_judges > 0 && pairs() <= tuning_.most_pairs;
}

std::span<const uint32_t>
NearGroups::rows(uint32_t group) const
{
	return std::span(by_group_).subspan(group_first_[group], group_first_[group + 1] - group_first_[group]);
}

uint64_t
NearGroups::most_candidates() const
{
	uint64_t most = 0;

	for (uint32_t g = 0; g < n_groups(); g++)
	{
		uint64_t n = 0;

		for (uint32_t c = 0; c < n_clusters_; c++)
			n += is_candidate(g, c) ? cluster_first_[c + 1] - cluster_first_[c] : 0;
		most = std::max(most, n);
	}
	return most;
}

double
NearGroups::pairs() const
{
	double n = 0;

	for (uint32_t g = 0; g < n_groups(); g++)
		for (uint32_t c = 0; c < n_clusters_; c++)
			n += is_candidate(g, c) ? pairs_of(g, c) : 0;
	return n / (static_cast<double>(n_rows_) * n_rows_);
}

std::shared_ptr<const Passing>
NearGroups::candidates(uint32_t group, SegmentId segment) const
{
	auto passing = std::make_shared<Passing>();
	auto of_segment = std::make_shared<PassingSegment>();

	of_segment->segment = segment;
	of_segment->n_rows = n_rows_;
	of_segment->bits.resize((size_t{n_rows_} + 7) / 8);
	for (uint32_t c = 0; c < n_clusters_; c++)
	{
		if (!is_candidate(group, c))
			continue;
		of_segment->n_pass += cluster_first_[c + 1] - cluster_first_[c];
		for (uint32_t i = cluster_first_[c]; i < cluster_first_[c + 1]; i++)
			of_segment->bits[by_cluster_[i] / 8] |= static_cast<uint8_t>(1U << by_cluster_[i] % 8);
	}
	of_segment->listed = of_segment->n_pass <= n_rows_ / kFewOfRows;
	if (of_segment->listed)
	{
		of_segment->rows.reserve(of_segment->n_pass);
		for (uint32_t i = 0; i < n_rows_; i++)
			if ((of_segment->bits[i / 8] >> i % 8 & 1) != 0)
				of_segment->rows.push_back(i);
		of_segment->bits.clear();
	}
	passing->n_rows = n_rows_;
	passing->n_pass = of_segment->n_pass;
	passing->segments.push_back(std::move(of_segment));
	return passing;
}

} // namespace vectorgpu::engine
