// Counts of rows found and wanted, and their recall. Plain numbers.
#pragma once

namespace vectorgpu::am
{

/// Rows found and wanted, and the recalls of queries for the variance. No whole numbers where samples have weights.
struct RecallCount
{
	double n_queries; // that had rows to find
	double found;
	double wanted;
	double sum_squares; // of the queries' own recalls
	double sum;
};

/// Recall, and the 95 % confidence interval of Wilson's score (Wilson 1927, "Probable inference, the law of succession,
/// and statistical inference", J. Am. Stat. Assoc. 22). Rows of one query are hit or missed together more often than by
/// chance: the number of trials is divided by the design effect, the variance between queries over that of independent
/// rows (Kish 1965), where it is above 1. All NaN if nothing was wanted.
struct RecallInterval
{
	double recall;
	double low;
	double high;
};

RecallInterval recall_interval(const RecallCount *count);

} // namespace vectorgpu::am
