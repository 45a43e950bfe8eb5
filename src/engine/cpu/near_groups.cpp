// See near_groups.hpp.
#include "engine/cpu/near_groups.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "engine/interface/list_builder.hpp"
#include "engine/predicate/row_bits.hpp"
#include "engine/recall/stratified.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr uint32_t kMostClusters = 16384; // the candidates of 1,024 groups are then 16 MB of marks
constexpr uint32_t kMostGroups = 1024;
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

/// Cuts clusters into groups of about as many rows each: in two halves of their rows again and again, across the
/// direction in which their centroids differ most. k-means of the centroids would put most of them into one group where
/// they lie in every direction, as the middles of unrelated groups of rows do: the mean of many is near to all.
class Bisection
{
public:
	/// cluster_first [clusters + 1]: numbers of rows, summed up.
	Bisection(const std::vector<float> &centroids, uint32_t dim, const std::vector<uint32_t> &cluster_first)
		: centroids_(centroids), dim_(dim), cluster_first_(cluster_first), values_(cluster_first.size() - 1)
	{
	}

	/// The group of each cluster, n_wanted groups or fewer.
	std::vector<uint32_t> groups(uint32_t n_wanted)
	{
		std::vector<uint32_t> clusters(values_.size());

		std::iota(clusters.begin(), clusters.end(), 0u);
		group_of_.resize(clusters.size());
		n_groups_ = 0;
		cut(clusters, n_wanted);
		return std::move(group_of_);
	}

	uint32_t n_groups() const { return n_groups_; }

private:
	static constexpr int kSteps = 4; // towards the direction

	const float *centroid(uint32_t cluster) const { return &centroids_[size_t{cluster} * dim_]; }
	double rows(uint32_t cluster) const { return cluster_first_[cluster + 1] - cluster_first_[cluster]; }

	void cut(std::span<uint32_t> clusters, uint32_t n_parts)
	{
		n_parts = std::min<uint32_t>(n_parts, static_cast<uint32_t>(clusters.size()));
		if (n_parts <= 1)
		{
			for (const uint32_t cluster : clusters)
				group_of_[cluster] = n_groups_;
			n_groups_ += clusters.empty() ? 0 : 1;
			return;
		}
		find_values(clusters);
		std::sort(clusters.begin(), clusters.end(),
			[this](uint32_t a, uint32_t b) { return values_[a] != values_[b] ? values_[a] < values_[b] : a < b; });

		const uint32_t n_left = n_parts / 2;
		const double wanted = rows_of(clusters) * n_left / n_parts;
		double before = 0;
		size_t at = 0;

		while (at < clusters.size() && before + rows(clusters[at]) / 2 <= wanted)
			before += rows(clusters[at++]);
		at = std::clamp<size_t>(at, 1, clusters.size() - 1);
		cut(clusters.first(at), n_left);
		cut(clusters.subspan(at), n_parts - n_left);
	}

	double rows_of(std::span<const uint32_t> clusters) const
	{
		return std::accumulate(clusters.begin(), clusters.end(), 0.0,
			[this](double sum, uint32_t cluster) { return sum + rows(cluster); });
	}

	/// Set the clusters' places along the direction; zeros if there is none.
	void find_values(std::span<const uint32_t> clusters)
	{
		const DistanceSpec l2 = {Metric::kL2, ElementType::kFloat32, dim_};
		const std::vector<float> mean = mean_of(clusters);
		std::vector<float> direction(dim_);
		uint32_t farthest = clusters[0];
		double most = -1;

		for (const uint32_t cluster : clusters)
		{
			double score = 0;

			compute_scores(l2, mean.data(), centroid(cluster), 0, 1, &score);
			if (score > most)
			{
				most = score;
				farthest = cluster;
			}
		}
		for (uint32_t d = 0; d < dim_; d++)
			direction[d] = centroid(farthest)[d] - mean[d];
		for (int step = 0; scale(&direction); step++)
		{
			project(clusters, mean, direction);
			if (step == kSteps)
				return;
			std::fill(direction.begin(), direction.end(), 0.0f);
			for (const uint32_t cluster : clusters)
			{
				const float weight = static_cast<float>(values_[cluster] * rows(cluster));

				for (uint32_t d = 0; d < dim_; d++)
					direction[d] += weight * (centroid(cluster)[d] - mean[d]);
			}
		}
		for (const uint32_t cluster : clusters)
			values_[cluster] = 0;
	}

	std::vector<float> mean_of(std::span<const uint32_t> clusters) const
	{
		const double n = std::max(rows_of(clusters), 1.0);
		std::vector<float> mean(dim_);

		for (const uint32_t cluster : clusters)
		{
			const float weight = static_cast<float>(rows(cluster) / n);

			for (uint32_t d = 0; d < dim_; d++)
				mean[d] += weight * centroid(cluster)[d];
		}
		return mean;
	}

	/// Give a direction length 1. False: it has none.
	static bool scale(std::vector<float> *direction)
	{
		double squares = 0;

		for (const float x : *direction)
			squares += static_cast<double>(x) * static_cast<double>(x);

		const double length = std::sqrt(squares);

		if (!(length > 0) || !std::isfinite(length))
			return false;
		for (float &x : *direction)
			x = static_cast<float>(static_cast<double>(x) / length);
		return true;
	}

	void project(
		std::span<const uint32_t> clusters, const std::vector<float> &mean, const std::vector<float> &direction)
	{
		const DistanceSpec products = {Metric::kInnerProduct, ElementType::kFloat32, dim_};
		double of_mean = 0;

		compute_scores(products, direction.data(), mean.data(), 0, 1, &of_mean);
		for (const uint32_t cluster : clusters)
		{
			double score = 0;

			compute_scores(products, direction.data(), centroid(cluster), 0, 1, &score);
			values_[cluster] = std::isfinite(score - of_mean) ? score - of_mean : 0;
		}
	}

	const std::vector<float> &centroids_; // [clusters, dim]
	const uint32_t dim_;
	const std::vector<uint32_t> &cluster_first_;
	std::vector<double> values_; // [clusters]
	std::vector<uint32_t> group_of_;
	uint32_t n_groups_ = 0;
};

/// The rows by squared distance: scaled to length 1 for a cosine they would have to be copied.
graph::GraphRows
plain_rows(const graph::GraphRows &rows)
{
	graph::GraphRows plain = rows;

	plain.spec.metric = Metric::kL2;
	return plain;
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
NearGroups::assign(Engine *engine, const DistanceSpec &spec, const uint8_t *rows, uint32_t n, SearchControl *control,
	uint32_t *labels, float *scores) const
{
	const size_t row_bytes = vector_bytes(spec.element, spec.dim);
	ListBuildSpec build;
	std::unique_ptr<ListBuilder> builder;

	build.rows = spec;
	build.n_clusters = n_clusters_;

	Status status = engine->make_list_builder(build, control, &builder);

	if (status.is_ok())
		status = builder->add_centroids(centroids_.data(), n_clusters_);
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
NearGroups::train(Engine *engine, const graph::GraphRows &rows, const NearGroupsTuning &tuning, SearchControl *control)
{
	const uint32_t dim = graph::cluster_dim(rows.spec);

	tuning_ = tuning;
	n_rows_ = rows.n_rows;
	n_clusters_ = std::clamp(n_rows_ / std::max(tuning_.cluster_rows, 1u), 1u, kMostClusters);

	const uint32_t n = static_cast<uint32_t>(std::min<uint64_t>(n_rows_, uint64_t{kTrainingRows} * n_clusters_));
	std::vector<uint32_t> chosen(n);
	std::vector<float> floats(size_t{n} * dim);
	std::vector<uint32_t> labels(n);
	std::vector<float> scores(n);

	for (uint32_t i = 0; i < n; i++)
		chosen[i] = static_cast<uint32_t>(stratified_row(i, n, n_rows_, kClusterSeed));
	graph::rows_to_floats(plain_rows(rows), chosen.data(), n, floats.data());
	centroids_.resize(size_t{n_clusters_} * dim);
	for (uint32_t c = 0; c < n_clusters_; c++)
		std::copy_n(&floats[stratified_row(c, n_clusters_, n, kSeed) * dim], dim, &centroids_[size_t{c} * dim]);
	for (uint32_t i = 0; i < kRounds; i++)
	{
		const Status status = assign(engine, {Metric::kL2, ElementType::kFloat32, dim},
			reinterpret_cast<const uint8_t *>(floats.data()), n, control, labels.data(), scores.data());

		if (!status.is_ok())
			return status;
		move_centroids(floats, dim, labels, scores);
	}
	return Status::ok();
}

/// Where the engine's copy has the rows as floats, they need not be sent to it again.
Status
NearGroups::label(Engine *engine, const graph::GraphRows &rows, CopyId copy, SegmentId segment, SearchControl *control)
{
	labels_.resize(n_rows_);
	if (copy != 0 && rows.spec.element == ElementType::kFloat32)
	{
		const Status status = engine->label_rows(copy, segment, centroids_, labels_.data(), control);

		if (status.code != StatusCode::kUnsupported && status.code != StatusCode::kOutOfMemory)
			return status;
	}

	std::vector<float> scores(n_rows_);

	return assign(engine, plain_rows(rows).spec, static_cast<const uint8_t *>(rows.rows), n_rows_, control,
		labels_.data(), scores.data());
}

/// A round of k-means over the sample floats [labels.size(), dim].
void
NearGroups::move_centroids(const std::vector<float> &floats, uint32_t dim, const std::vector<uint32_t> &labels,
	const std::vector<float> &scores)
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
		float *centroid = &centroids_[size_t{c} * dim];
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

void
NearGroups::make_groups(uint32_t dim)
{
	sort_by_label(labels_, n_clusters_, &cluster_first_, &by_cluster_);

	Bisection bisection(centroids_, dim, cluster_first_);
	std::vector<uint32_t> by_group; // clusters
	std::vector<uint32_t> first;

	group_of_ = bisection.groups(
		std::clamp(n_rows_ / std::max(tuning_.group_rows, 1u), 1u, std::min(kMostGroups, n_clusters_)));
	sort_by_label(group_of_, bisection.n_groups(), &first, &by_group);
	group_first_.assign(1, 0);
	by_group_.reserve(n_rows_);
	for (uint32_t g = 0; g < bisection.n_groups(); g++)
	{
		for (uint32_t i = first[g]; i < first[g + 1]; i++)
			by_group_.insert(by_group_.end(), by_cluster_.begin() + cluster_first_[by_group[i]],
				by_cluster_.begin() + cluster_first_[by_group[i] + 1]);
		group_first_.push_back(static_cast<uint32_t>(by_group_.size()));
	}
}

/// Set near_clusters_ by a search of the centroids in a copy of their own.
Status
NearGroups::find_near_clusters(Engine *engine, uint32_t dim, SearchControl *control)
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
		queries[c].query = &centroids_[size_t{c} * dim];
		queries[c].k = size_t{n_near} + 1;
		queries[c].own_row = {kSegment, c};
	}
	spec.distance = {Metric::kL2, ElementType::kFloat32, dim};
	spec.kind = CopyKind::kRows;

	Status status = engine->create(spec, &copy);

	if (!status.is_ok())
		return status;
	status = engine->load_segment(copy, kSegment, {ids, centroids_.data(), n_clusters_});
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
NearGroups::group(Engine *engine, const graph::GraphRows &rows, CopyId copy, SegmentId segment, SearchControl *control)
{
	const uint32_t dim = graph::cluster_dim(rows.spec);
	Status status = label(engine, rows, copy, segment, control);

	if (!status.is_ok())
		return status;
	make_groups(dim);
	status = find_near_clusters(engine, dim, control);
	std::vector<float>().swap(centroids_);

	const uint32_t n_sampled = std::max(n_rows_ / std::max(tuning_.sampled, 1u), 1u);

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
		of_segment->rows.resize(of_segment->n_pass);
		predicate::list_rows(of_segment->bits.data(), n_rows_, of_segment->rows.data(), of_segment->rows.size());
		of_segment->bits.clear();
	}
	passing->n_rows = n_rows_;
	passing->n_pass = of_segment->n_pass;
	passing->segments.push_back(std::move(of_segment));
	return passing;
}

} // namespace vectorgpu::engine
