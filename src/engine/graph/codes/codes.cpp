// See codes.hpp.
#include "engine/graph/codes/codes.hpp"

#include "engine/graph/codes/hash.hpp"
#include "engine/graph/codes/rabitq_codes.hpp"

namespace vectorgpu::engine::graph
{

size_t
code_work_floats(const CodeSpec &spec)
{
	return codes_are_rabitq(spec.bits) ? rabitq_work_floats(spec) : hash_work_floats(spec);
}

uint32_t
code_piece_rows(const CodeSpec &spec)
{
	return codes_are_rabitq(spec.bits) ? rabitq_piece_rows(spec) : hash_piece_rows(spec);
}

bool
train_codes(const CodeSpec &spec, const GraphRows &rows, float *bound, float *floats, float *work, const Call &call)
{
	*bound = 0;
	return codes_are_rabitq(spec.bits) ? rabitq_train_centre(spec, rows, floats, work, call)
									   : hash_train(spec, rows, bound, floats, work, call);
}

void
make_codes(const CodeModel &model, const GraphRows &rows, uint8_t *codes, float *work)
{
	if (codes_are_rabitq(model.spec.bits))
		rabitq_rows(model, rows, codes, work);
	else
		hash_rows(model, rows, codes, work);
}

void
make_query_code(const CodeModel &model, const void *query, uint8_t *code, float *work)
{
	if (codes_are_rabitq(model.spec.bits))
		rabitq_query(model, query, code, work);
	else
		hash_query(model, query, code, work);
}

} // namespace vectorgpu::engine::graph
