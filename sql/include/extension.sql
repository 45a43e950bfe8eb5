-- included by tests: the extension is there afterwards, whichever test ran first
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS vectorgpu;
RESET client_min_messages;
