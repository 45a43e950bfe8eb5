// This process's session: its state, sending, receiving. See client_session.hpp.
#include "bridge/client_session.hpp"

#include "bridge/breaker.hpp"
#include "bridge/session_parts.hpp"
#include "bridge/settings.hpp"
#include "bridge/supervisor.hpp"
#include "pg/fault.hpp"
#include "wire/copy_messages.hpp"

namespace vectorgpu::bridge
{

Session session;

namespace
{

constexpr uint32 kAckWaitUs = 1000;
constexpr uint64 kGiveUpFactor = 30; // timeouts after which a silent session is closed

uint64 last_build; // see session_new_build

void
init_once()
{
	if (session.initialized)
		return;
	wire::client_init(&session.client);
	if (static_cast<int>(session.role) == 0)
		session.role = wire::Role::kBackend;
	session.initialized = true;
}

/// Return true if the open session can take a request now. Close it if it is unusable.
bool
slot_is_free(SharedState *state, Fallback *reason)
{
	wire::ClientState client_state = wire::client_poll(&session.client);
	uint64 silence_ns = 0;
	uint64 limit_ns = 0;

	switch (client_state)
	{
		case wire::ClientState::kIdle:
			return true;
		case wire::ClientState::kReplied:
			// An error was raised between the reply and taking it.
			wire::client_abandon(&session.client);
			client_state = wire::client_poll(&session.client);
			if (client_state == wire::ClientState::kPending) // the worker went back from replied
				client_state = wire::ClientState::kBroken;
			break;
		case wire::ClientState::kPending:
			if (!wire::client_alive(&session.client))
			{
				*reason = Fallback::kGone;
				session_close();
				pause_after_failure(state);
				return false;
			}
			// The slot can be used only after the answer of the cancelled request: wait a moment for it.
			wire::client_abandon(&session.client);
			silence_ns = wire::client_silence_ns(&session.client);
			limit_ns = static_cast<uint64>(settings.worker_timeout_ms) * kNsPerMs;
			if (silence_ns < limit_ns)
				client_state = wire::client_spin(&session.client, kAckWaitUs);
			break;
		case wire::ClientState::kBroken:
			break;
	}
	switch (client_state)
	{
		case wire::ClientState::kIdle:
			return true;
		case wire::ClientState::kPending:
			*reason = silence_ns < limit_ns ? Fallback::kSlotBusy : Fallback::kSilent;
			if (silence_ns < kGiveUpFactor * limit_ns)
				return false;
			break;
		case wire::ClientState::kReplied: // impossible once it is abandoned
		case wire::ClientState::kBroken:
			*reason = Fallback::kWrongAnswer;
			break;
	}
	session_close();
	pause_after_failure(state);
	return false;
}

bool
fail_session(Fallback reason, Fallback *out)
{
	SharedState *state = shared_state();

	session_close();
	if (state != nullptr)
		pause_after_failure(state);
	*out = reason;
	return false;
}

} // namespace

void
session_set_role(wire::Role role)
{
	session.role = role;
}

void
session_set_room(Room room)
{
	if (session.room != room && session.initialized && session.role != wire::Role::kLoader)
		session_close();
	session.room = room;
}

bool
session_ready(bool note)
{
	SharedState *state = shared_state();
	Fallback reason = Fallback::kGone;

	if (state == nullptr)
		return false;
	init_once();
	if (session.client.phase != wire::ClientPhase::kClosed &&
		session.generation != pg_atomic_read_u64(&state->generation))
		session_close(); // its worker has ended
	if (session.client.phase == wire::ClientPhase::kOpen)
	{
		const bool is_free = slot_is_free(state, &reason);
		const bool silent = session.role != wire::Role::kSupervisor && pg_atomic_read_u32(&state->worker_silent) != 0;

		if (is_free && !silent)
			return true;
		if (is_free)
			reason = Fallback::kSilent;
		if (note)
			note_fallback(reason, nullptr);
		return false;
	}
	// The supervisor connects first: this makes the worker ready.
	if (session.role != wire::Role::kSupervisor)
	{
		if (pg_atomic_read_u32(&state->worker_ready) == 0)
		{
			supervisor_request(state);
			if (note)
				note_fallback(Fallback::kNotRunning, nullptr);
			return false;
		}
		if (pg_atomic_read_u32(&state->worker_silent) != 0)
		{
			if (note)
				note_fallback(Fallback::kSilent, nullptr);
			return false;
		}
	}
	if (session.client.phase == wire::ClientPhase::kClosed &&
		session.failed_generation == pg_atomic_read_u64(&state->generation) &&
		wire::monotonic_ns() < session.retry_at_ns)
	{
		if (note)
			note_fallback(Fallback::kUnreachable, nullptr);
		return false;
	}
	return connect_session(state, note);
}

bool
session_submit(
	wire::RequestType type, const wire::CopyKey *key, const wire::Part *parts, size_t n_parts, Fallback *reason)
{
	wire::ClientResult result;

	if (VG_FAULT("bridge_send"))
		return fail_session(Fallback::kGone, reason);
	result = wire::client_submit(&session.client, type, key, parts, n_parts);
	if (result == wire::ClientResult::kOk)
		return true;
	if (result == wire::ClientResult::kTooLarge || result == wire::ClientResult::kNotReady)
	{
		*reason = result == wire::ClientResult::kTooLarge ? Fallback::kRequestTooLarge : Fallback::kSlotBusy;
		return false;
	}
	return fail_session(Fallback::kGone, reason);
}

bool
session_receive(wire::ReplyHeader *header, void *body, size_t body_capacity, Fallback *reason)
{
	if (!wait_guarded(reason))
		return *reason == Fallback::kSilent ? false : fail_session(*reason, reason);
	if (VG_FAULT("bridge_receive"))
		return fail_session(Fallback::kWrongAnswer, reason);
	if (wire::client_take_reply(&session.client, header, body, body_capacity) != wire::ClientResult::kOk)
		return fail_session(Fallback::kWrongAnswer, reason);
	if (!is_receipt(session.client.type, header)) // which comes from the dispatcher
		breaker_note_reply(session.client.type, header->status);
	if (header->batch_size > 0)
	{
		session.last_batch = header->batch_size;
		session.last_engine_us = static_cast<uint32>(Min(header->engine_ns / 1000, PG_UINT32_MAX));
	}
	return true;
}

bool
session_request(wire::RequestType type, const wire::CopyKey *key, const wire::Part *parts, size_t n_parts,
	wire::ReplyHeader *header, void *body, size_t body_capacity, Fallback *reason)
{
	return session_submit(type, key, parts, n_parts, reason) && session_receive(header, body, body_capacity, reason);
}

uint32
session_inventory(uint32 first, wire::CopyInfo *copies)
{
	const wire::InventoryRequest request = {first, 0};
	const wire::Part part = {&request, sizeof(request)};
	wire::ReplyHeader header;
	Fallback reason;

	CHECK_FOR_INTERRUPTS();
	if (!session_ready(false) ||
		!session_request(wire::RequestType::kInventory, nullptr, &part, 1, &header, copies,
			sizeof(wire::CopyInfo) * kCopiesPerReply, &reason) ||
		header.status != wire::ReplyStatus::kOk)
		return 0;
	return header.n_items;
}

bool
session_is_connecting()
{
	return session.initialized &&
		(session.client.phase == wire::ClientPhase::kConnecting ||
			session.client.phase == wire::ClientPhase::kGreeting);
}

size_t
session_body_capacity()
{
	return session.initialized ? wire::client_body_capacity(&session.client) : 0;
}

uint8 *
session_body()
{
	return session.initialized ? wire::client_body(&session.client) : nullptr;
}

size_t
session_reply_capacity()
{
	return session.client.phase == wire::ClientPhase::kOpen
		? session.client.reply_area_bytes - sizeof(wire::ReplyHeader)
		: 0;
}

uint64
session_sequence()
{
	return session.client.sequence;
}

uint64
session_number()
{
	return session.number;
}

void
session_give_up_searches(bool is_under_way)
{
	const wire::SearchManyRequest fetch = {0, wire::kManyContinues};
	const wire::Part part = {&fetch, sizeof(fetch)};

	if (!is_under_way)
		(void) wire::client_submit(&session.client, wire::RequestType::kSearchMany, nullptr, &part, 1);
	wire::client_abandon(&session.client);
}

uint64
session_new_build()
{
	return ++last_build;
}

uint64
session_build()
{
	return last_build;
}

bool
session_skewed()
{
	return session.skewed;
}

wire::EngineKind
session_engine()
{
	return session.client.engine;
}

bool
is_receipt(wire::RequestType type, const wire::ReplyHeader *header)
{
	return type == wire::RequestType::kSearchMany && header->status == wire::ReplyStatus::kOk && header->n_items == 0;
}

Fallback
fallback_of(wire::ReplyStatus status)
{
	switch (status)
	{
		case wire::ReplyStatus::kAbsent:
		case wire::ReplyStatus::kBehind:
		case wire::ReplyStatus::kBusy:
			return Fallback::kLoading;
		case wire::ReplyStatus::kRefused:
			return Fallback::kTooLarge;
		case wire::ReplyStatus::kCancelled:
			return Fallback::kSlotBusy;
		case wire::ReplyStatus::kOutOfMemory:
			return Fallback::kOutOfMemory;
		case wire::ReplyStatus::kOk:
		case wire::ReplyStatus::kInvalid:
		case wire::ReplyStatus::kUnsupported:
		case wire::ReplyStatus::kInternal:
			break;
	}
	return Fallback::kRefused;
}

} // namespace vectorgpu::bridge
