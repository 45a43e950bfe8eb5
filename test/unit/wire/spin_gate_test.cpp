// When a client polls for its reply before it sleeps.
#include "wire/spin_gate.hpp"

#include <gtest/gtest.h>

namespace vectorgpu::wire
{
namespace
{

/// Requests without a spin until the next one that spins.
uint32_t
pause_of(SpinGate *gate)
{
	uint32_t n = 0;

	while (!spin_gate_enter(gate))
		n++;
	return n;
}

TEST(SpinGate, spins_for_every_request_while_spins_succeed)
{
	SpinGate gate;

	for (int i = 0; i < 100; i++)
	{
		ASSERT_TRUE(spin_gate_enter(&gate));
		spin_gate_note(&gate, i % kSpinMisses != 0); // a miss now and then
	}
}

TEST(SpinGate, skips_more_spins_the_longer_they_fail)
{
	SpinGate gate;

	for (uint32_t i = 0; i < kSpinMisses; i++)
	{
		ASSERT_TRUE(spin_gate_enter(&gate)) << i;
		spin_gate_note(&gate, false);
	}
	for (uint32_t pause = kFirstSpinPause; pause < kLongestSpinPause; pause *= 2)
	{
		EXPECT_EQ(pause_of(&gate), pause);
		spin_gate_note(&gate, false);
	}
	for (int i = 0; i < 3; i++)
	{
		EXPECT_EQ(pause_of(&gate), kLongestSpinPause);
		spin_gate_note(&gate, false);
	}
}

TEST(SpinGate, starts_again_after_a_successful_spin)
{
	SpinGate gate;

	for (uint32_t i = 0; i < kSpinMisses; i++)
		spin_gate_note(&gate, false);
	EXPECT_EQ(pause_of(&gate), kFirstSpinPause);
	spin_gate_note(&gate, true);
	for (uint32_t i = 0; i < kSpinMisses; i++)
	{
		EXPECT_EQ(pause_of(&gate), 0u) << i;
		spin_gate_note(&gate, false);
	}
	EXPECT_EQ(pause_of(&gate), kFirstSpinPause);
}

} // namespace
} // namespace vectorgpu::wire
