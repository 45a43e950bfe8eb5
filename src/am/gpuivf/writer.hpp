// The state of a segment being written: rows wait in a temporary file until all are there, since lists are known only
// then. PG dialect. Used by format.cpp (the callbacks, the passes over the rows), train.cpp and calibrate.cpp.
#pragma once

#include "am/gpuivf/assign.hpp"

extern "C"
{
#include "storage/buffile.h"
}

namespace vectorgpu::am
{

struct IvfWriter
{
	SegmentPlan plan;
	const MetaData *meta;
	Watch watch;
	Size vector_bytes;
	Size memory; // bytes: maintenance_work_mem
	uint64 n_rows;
	BufFile *vectors;   // as stored, in TID order
	BufFile *labels;    // uint32 list of each row, in TID order; null before rows are assigned
	BufFile *list_rows; // kListRowStream; null before lists are written
	IvfModel model;
	float *centroids; // [model.n_lists, dim]
	uint64 *offsets;  // [model.n_lists + 1], of the lists of this segment
	double mean_error; // of this segment's rows to their centroids
};

/// train.cpp. Takes over the model of the segment that the rows come from, if it is still right for so many rows.
bool ivf_take_model(IvfWriter *writer);

/// train.cpp. Trains a model on a sample of the rows. False: it gave way.
bool ivf_train(IvfWriter *writer);

/// calibrate.cpp. Measures on some of the rows what recall how many probes give. Rows have been assigned. False: it gave way.
bool ivf_calibrate(IvfWriter *writer);

/// format.cpp. Reads n rows from number `first` on, as they were handed over; the file's position is behind them then.
void ivf_read_spooled(IvfWriter *writer, uint64 first, uint64 n, char *vectors);

} // namespace vectorgpu::am
