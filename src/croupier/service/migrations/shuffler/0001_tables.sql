-- The shuffler's tables. What a table holds about users, and for how long, is said beside it.

CREATE TABLE plans (
    id TEXT PRIMARY KEY NOT NULL,
    document TEXT NOT NULL,
    plan_key BYTEA,                     -- makes account_mac; handed on to the plan's successor
    batch BIGINT NOT NULL,              -- the newest one
    ended BIGINT NOT NULL DEFAULT 0,
    predecessor TEXT
);

CREATE TABLE batches (
    plan TEXT NOT NULL REFERENCES plans (id),
    batch BIGINT NOT NULL,
    state TEXT NOT NULL
        CHECK (state IN ('open', 'sealed', 'released', 'acknowledged', 'scrubbed')),
    size BIGINT NOT NULL,
    filled BIGINT NOT NULL DEFAULT 0 CHECK (filled <= size),
    padded BIGINT NOT NULL DEFAULT 0,
    dropped BIGINT NOT NULL DEFAULT 0,
    model_version BIGINT NOT NULL,
    model_hash TEXT NOT NULL,
    inner_key BYTEA NOT NULL,           -- the analyzer's public key that rows are sealed for
    batch_key BYTEA,                    -- makes user_mac; destroyed at seal
    body BYTEA,                         -- the released bytes, until scrubbed
    signature TEXT,
    seeds BYTEA,                        -- shares: in the released order, until one sum is released
    opened BYTEA,                       -- shares: the only set whose sum was released
    share BYTEA,                        -- shares: that sum
    next_version BIGINT,                -- the model that the analyzer learnt from this batch
    next_hash TEXT,
    lease_owner TEXT,
    lease_until DOUBLE PRECISION NOT NULL DEFAULT 0,
    PRIMARY KEY (plan, batch)
);

-- Gone when the batch is scrubbed.
CREATE TABLE reports (
    plan TEXT NOT NULL,
    batch BIGINT NOT NULL,
    id BYTEA NOT NULL,
    digest BYTEA NOT NULL,
    payload BYTEA NOT NULL,
    user_mac BYTEA NOT NULL,            -- HMAC(batch key, account)
    PRIMARY KEY (plan, id),
    UNIQUE (plan, batch, user_mac),
    FOREIGN KEY (plan, batch) REFERENCES batches (plan, batch)
);

-- Kept for the plan's life and handed on to its successor.
CREATE TABLE participations (
    plan TEXT NOT NULL REFERENCES plans (id),
    account_mac BYTEA NOT NULL,         -- HMAC(plan key, account)
    spent BIGINT NOT NULL,
    PRIMARY KEY (plan, account_mac)
);

-- Rows of channels that stay open over several batches, cut loose from their reports.
CREATE TABLE held (
    plan TEXT NOT NULL REFERENCES plans (id),
    channel TEXT NOT NULL,
    content BYTEA NOT NULL,
    PRIMARY KEY (plan, channel)
);

-- Append-only.
CREATE TABLE ledger (
    plan TEXT NOT NULL,
    batch BIGINT NOT NULL,
    entry TEXT NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (plan, batch)
);

-- What the analyzer published, byte for byte: public, and kept for good.
CREATE TABLE mirror (
    plan TEXT NOT NULL,
    name TEXT NOT NULL,
    document BYTEA NOT NULL,
    PRIMARY KEY (name, plan)
);
