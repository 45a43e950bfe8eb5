// See slot.hpp: the futex on a slot's state. Both sides.
#include "wire/slot.hpp"

#include <cerrno>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace vectorgpu::wire
{

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) && offsetof(SlotHeader, state) == 0);

bool
sleep_on_state(SlotHeader *slot, SlotState seen, uint32_t timeout_us)
{
	// Not FUTEX_PRIVATE_FLAG: another process uses the word, too. With a time limit the call ends with EINTR after a
	// signal, even where the handler was installed with SA_RESTART.
	const timespec timeout = {
		static_cast<time_t>(timeout_us / 1000000), static_cast<long>(timeout_us % 1000000) * 1000};

	if (syscall(SYS_futex, &slot->state, FUTEX_WAIT, static_cast<uint32_t>(seen), &timeout, nullptr, 0) == 0)
		return true;
	return errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT;
}

void
wake_state(SlotHeader *slot)
{
	syscall(SYS_futex, &slot->state, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

} // namespace vectorgpu::wire
