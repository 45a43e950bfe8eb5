// Decides whether to poll for a reply before sleeping: a spin without success (a slow engine, more clients than cores)
// takes processor time from others. Plain data and arithmetic, for one client's thread.
#pragma once

#include <cstdint>

namespace vectorgpu::wire
{

constexpr uint32_t kSpinMisses = 4;          // consecutive failed spins after which spins are skipped
constexpr uint32_t kFirstSpinPause = 16;     // requests without a spin after that
constexpr uint32_t kLongestSpinPause = 1024; // the pause doubles with every further miss up to this

struct SpinGate
{
	uint32_t n_missed = 0; // failed spins since the last success, at most kSpinMisses
	uint32_t n_left = 0;   // next requests that do not spin
	uint32_t pause = 0;    // length of the last pause
};

/// Call this for every request. True: it should spin, and spin_gate_note must follow.
inline bool
spin_gate_enter(SpinGate *gate)
{
	if (gate->n_left == 0)
		return true;
	gate->n_left--;
	return false;
}

/// Record how the spin ended: with or without the reply.
inline void
spin_gate_note(SpinGate *gate, bool replied)
{
	if (replied)
	{
		*gate = SpinGate{};
		return;
	}
	if (gate->n_missed + 1 < kSpinMisses)
	{
		gate->n_missed++;
		return;
	}
	gate->pause = gate->pause == 0        ? kFirstSpinPause
		: gate->pause < kLongestSpinPause ? 2 * gate->pause
										  : kLongestSpinPause;
	gate->n_left = gate->pause;
}

} // namespace vectorgpu::wire
