// See near_entries.hpp.
#include "engine/graph/near_entries.hpp"

#include <algorithm>
#include <cmath>

#include "engine/graph/knn_graph.hpp"
#include "engine/ivf/ivf_kernels.hpp"

namespace vectorgpu::engine::graph
{

namespace
{

constexpr size_t kBytesPerRow = 256; // of a graph's rows, in the columns at most: their lists' scores took as much

constexpr uint32_t kChosen = EntryMatrix::kNearChosen;

/// The kChosen smallest of the values offered.
class Smallest
{
public:
	float bound() const { return values_[kChosen - 1]; }
	/// value: below bound().
	void push(float value, uint32_t column)
	{
		uint32_t i = kChosen - 1;

		for (; i > 0 && value < values_[i - 1]; i--)
		{
			values_[i] = values_[i - 1];
			columns_[i] = columns_[i - 1];
		}
		values_[i] = value;
		columns_[i] = column;
	}
	const uint32_t *columns() const { return columns_; }
	void clear()
	{
		std::fill_n(values_, kChosen, HUGE_VALF);
		std::fill_n(columns_, kChosen, kNoNode);
	}

private:
	float values_[kChosen];
	uint32_t columns_[kChosen];
};

/// Whether the row's own length takes part in its cosine without overflow or loss of bits.
bool
has_plain_length(const GraphRows &rows, uint32_t node)
{
	GraphRows products = rows;
	double score;

	products.spec.metric = Metric::kInnerProduct;
	score_rows(products, products.row(node), &node, 1, &score);
	return -score > 0x1p-80 && -score < 0x1p120;
}

bool
has_order_of_l2(const DistanceSpec &spec)
{
	return spec.element != ElementType::kBit && (spec.metric == Metric::kL2 || spec.metric == Metric::kCosine);
}

} // namespace

void
EntryMatrix::take(ivf::Arena *arena, const GraphRows &rows, uint32_t most_entries, NearMemory *tasks, size_t n_tasks)
{
	const size_t capacity = (size_t{most_entries} + kWidestPanel - 1) / kWidestPanel * kWidestPanel;

	dim_ = rows.spec.dim;
	n_columns_ = 0;
	odd_ = false;
	largest_ = 0;
	usable_ = has_order_of_l2(rows.spec) && most_entries >= kSearchEntries &&
		capacity * dim_ * sizeof(float) <= rows.n_rows * kBytesPerRow;
	if (!usable_)
		return;
	panel_width_ = ivf::ivf_kernels().panel_width;
	panels_ = arena->take<float>(capacity * dim_);
	half_norms_ = arena->take<float>(capacity);
	mean_ = arena->take<float>(dim_);
	sums_ = arena->take<double>(dim_);
	for (size_t i = 0; i < n_tasks; i++)
	{
		tasks[i].floats = arena->take<float>(size_t{kNearRows} * dim_);
		tasks[i].products = arena->take<float>(kNearRows * kNearColumns);
	}
}

void
EntryMatrix::set_mean(const GraphRows &rows, const uint32_t *entries, uint32_t n_entries, const NearMemory &scratch)
{
	std::fill_n(sums_, dim_, 0.0);
	for (uint32_t first = 0; first < n_entries; first += kNearRows)
	{
		const uint32_t n = std::min(kNearRows, n_entries - first);

		rows_to_floats(rows, entries + first, n, scratch.floats);
		for (uint32_t i = 0; i < n; i++)
			for (uint32_t d = 0; d < dim_; d++)
				sums_[d] += static_cast<double>(scratch.floats[size_t{i} * dim_ + d]);
	}
	for (uint32_t d = 0; d < dim_; d++)
		mean_[d] = static_cast<float>(sums_[d] / n_entries);
}

void
EntryMatrix::to_floats(const GraphRows &rows, const uint32_t *nodes, uint32_t n, const NearMemory &memory) const
{
	rows_to_floats(rows, nodes, n, memory.floats);
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t d = 0; d < dim_; d++)
			memory.floats[size_t{i} * dim_ + d] -= mean_[d];
}

void
EntryMatrix::add(const GraphRows &rows, const uint32_t *entries, uint32_t n_entries, const NearMemory &scratch)
{
	if (n_columns_ == 0 && n_entries > 0)
		set_mean(rows, entries, n_entries, scratch);
	for (; n_columns_ < n_entries; n_columns_++)
	{
		const size_t panel = n_columns_ / panel_width_;
		float *column = panels_ + panel * dim_ * panel_width_ + n_columns_ % panel_width_;
		double squares = 0;

		// Products are those of whole panels, also with columns that are still to come.
		if (n_columns_ % panel_width_ == 0)
			std::fill_n(panels_ + panel * dim_ * panel_width_, dim_ * panel_width_, 0.0f);
		to_floats(rows, entries + n_columns_, 1, scratch);
		for (uint32_t d = 0; d < dim_; d++)
		{
			column[d * panel_width_] = scratch.floats[d];
			squares += static_cast<double>(scratch.floats[d]) * static_cast<double>(scratch.floats[d]);
		}
		half_norms_[n_columns_] = static_cast<float>(squares / 2);
		largest_ = std::max(largest_, squares);
		odd_ = odd_ || !std::isfinite(squares) ||
			(rows.spec.metric == Metric::kCosine && !has_plain_length(rows, entries[n_columns_]));
	}
}

/// The least canonical score that a column can have whose value is `last` or more. A value is half the column's squared
/// length less its product with the row's floats: with half the row's squared length that is half the squared distance,
/// but for the roundings of the floats (less the mean), of the products' sum, and of the canonical score itself, whose
/// terms are as many in its lanes and tree (../distance/README.md); u each.
double
EntryMatrix::least_score(const GraphRows &rows, uint32_t node, const float *floats, float last) const
{
	constexpr double u = 0x1p-24;
	double squares = 0;

	if (n_columns_ <= kNearChosen)
		return HUGE_VAL;
	for (uint32_t d = 0; d < dim_; d++)
		squares += static_cast<double>(floats[d]) * static_cast<double>(floats[d]);

	const double lengths = std::sqrt(squares) + std::sqrt(largest_);
	const double dim = dim_;

	if (odd_ || !(lengths < 0x1p60) || !std::isfinite(last) ||
		(rows.spec.metric == Metric::kCosine && !has_plain_length(rows, node)))
		return -HUGE_VAL;

	const double error = (1.1 * dim + 64) * u * lengths * lengths + 0x1p-100;
	const double half = static_cast<double>(last) + squares / 2 - error;

	// A cosine is half the squared distance of rows of length 1; its error does not depend on the mean.
	return rows.spec.metric == Metric::kCosine ? half - (dim / 8 + 64) * u : 2 * half;
}

void
EntryMatrix::choose(const GraphRows &rows, const uint32_t *nodes, uint32_t n, uint32_t *near, double *least,
	const NearMemory &memory) const
{
	Smallest smallest[kNearRows];

	to_floats(rows, nodes, n, memory);
	for (uint32_t i = 0; i < n; i++)
		smallest[i].clear();
	for (uint32_t first = 0; first < n_columns_; first += kNearColumns)
	{
		const uint32_t n_here = std::min(kNearColumns, n_columns_ - first);
		const size_t n_panels = (n_here + panel_width_ - 1) / panel_width_;

		ivf::ivf_kernels().multiply({memory.floats, dim_, 1, n, dim_}, {panels_ + size_t{first} * dim_, n_panels},
			memory.products, kNearColumns);
		for (uint32_t i = 0; i < n; i++)
		{
			const float *products = memory.products + size_t{i} * kNearColumns;

			for (uint32_t c = 0; c < n_here; c++)
			{
				const float value = half_norms_[first + c] - products[c];

				if (value < smallest[i].bound())
					smallest[i].push(value, first + c);
			}
		}
	}
	for (uint32_t i = 0; i < n; i++)
	{
		std::copy_n(smallest[i].columns(), kNearChosen, near + size_t{i} * kNearChosen);
		least[i] = least_score(rows, nodes[i], memory.floats + size_t{i} * dim_, smallest[i].bound());
	}
}

} // namespace vectorgpu::engine::graph
