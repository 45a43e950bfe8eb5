// The access methods by their ids, for code that meets an index without its handler: merge, check, worker. PG dialect.
#include "am/method/am_interface.hpp"
#include "storage/value_format.hpp"

namespace vectorgpu::am
{

namespace
{

constexpr int kMaxAccessMethods = 8;

const AccessMethod *access_methods[kMaxAccessMethods];
int n_access_methods = 0;

} // namespace

void
register_access_method(const AccessMethod *am)
{
	Assert(n_access_methods < kMaxAccessMethods);
	access_methods[n_access_methods++] = am;
}

const ValueFormat *
value_format(const IndexShape *shape)
{
	for (int i = 0; i < n_access_methods; i++)
		if (access_methods[i]->id == shape->am)
			return access_methods[i]->values;
	return nullptr;
}

const AccessMethod *
access_method(Relation index, const MetaData *meta)
{
	for (int i = 0; i < n_access_methods; i++)
		if (access_methods[i]->id == meta->am)
			return access_methods[i];
	page_corrupted(index, 0, "The metapage names no known access method.");
}

} // namespace vectorgpu::am
