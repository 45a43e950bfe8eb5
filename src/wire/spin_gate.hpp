// When it is worth looking for a reply before sleeping: a spin that ends in vain (a slow engine, more clients than
// cores) takes time from somebody else. Plain data and arithmetic, for one client's thread.
#pragma once

#include <cstdint>

namespace vectorgpu::wire
{

constexpr uint32_t kSpinMisses = 4;          // spins in vain, one after the other, before the first is left out
constexpr uint32_t kFirstSpinPause = 16;     // requests without a spin after that
constexpr uint32_t kLongestSpinPause = 1024; // the pause doubles with every further miss up to this

struct SpinGate
{
	uint32_t n_missed = 0; // since the last hit, kSpinMisses at most
	uint32_t n_left = 0;   // requests to come that do not spin
	uint32_t pause = 0;    // the last one's length
};

/// For every request: true if it should spin. Then spin_gate_note must follow.
inline bool
spin_gate_enter(SpinGate *gate)
{
	if (gate->n_left == 0)
		return true;
	gate->n_left--;
	return false;
}

/// How the spin ended: with the reply or in vain.
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
