-- The shuffler's tables. What a table holds about users, and for how long, is said beside it.
-- Reports and marks are encrypted with keys that are files beside the database, never in it.

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
    attempt BIGINT NOT NULL DEFAULT 0,  -- how often it was emptied and begun again
    size BIGINT NOT NULL,
    filled BIGINT NOT NULL DEFAULT 0 CHECK (filled <= size),
    padded BIGINT NOT NULL DEFAULT 0,
    dropped BIGINT NOT NULL DEFAULT 0,
    newcomers BIGINT NOT NULL DEFAULT 0,    -- accounts in it that the plan had never counted,
                                            -- where new_per_batch is set; 0 elsewhere
    key_prints BYTEA,                   -- fingerprints of both keys, from the first report on
    model_version BIGINT NOT NULL,
    model_hash TEXT NOT NULL,
    inner_key BYTEA NOT NULL,           -- the analyzer's public key that rows are sealed for
    body BYTEA,                         -- the bytes for the analyzer, from the seal to the scrub
    digest BYTEA,                       -- of what was made at the seal, or added up since
    signature TEXT,                     -- of the body, once it is released
    seeds BYTEA,                        -- shares: encrypted with the late key, in the body's order,
                                        -- until one sum is released
    opened BYTEA,                       -- shares: the only set whose sum was released
    share BYTEA,                        -- shares: that sum
    added_up BIGINT NOT NULL DEFAULT 0, -- shares: 1 from then on, for the batch's life
    next_version BIGINT,                -- the model that the analyzer learnt from this batch
    next_hash TEXT,
    lease_owner TEXT,
    lease_until DOUBLE PRECISION NOT NULL DEFAULT 0,
    PRIMARY KEY (plan, batch)
);

-- Gone when the batch is scrubbed; from the seal on only id and digest are left of a report.
CREATE TABLE reports (
    plan TEXT NOT NULL,
    batch BIGINT NOT NULL,
    id BYTEA NOT NULL,                  -- HMAC(late key, report id)
    digest BYTEA NOT NULL,              -- HMAC(late key, digest of the uploaded bytes)
    user_mac BYTEA,                     -- HMAC(early key, account)
    content BYTEA,                      -- account_mac and payload, encrypted with the early key
    PRIMARY KEY (plan, batch, id),
    UNIQUE (plan, batch, user_mac),
    FOREIGN KEY (plan, batch) REFERENCES batches (plan, batch)
) WITHOUT ROWID;

-- Kept for the plan's life and handed on to its successor. Written at the seal, in order of the marks.
CREATE TABLE participations (
    plan TEXT NOT NULL REFERENCES plans (id),
    account_mac BYTEA NOT NULL,         -- HMAC(plan key, account)
    spent BIGINT NOT NULL,
    PRIMARY KEY (plan, account_mac)
) WITHOUT ROWID;

-- Channels that stay open over several batches: what all their complete batches come to.
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

-- Attempts whose shares were handed on and whose masks were destroyed. Append-only.
CREATE TABLE drops (
    plan TEXT NOT NULL REFERENCES plans (id),
    batch BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    digest BYTEA NOT NULL,              -- of the bytes that were handed on
    opened BIGINT NOT NULL,             -- reports that opened, as the analyzer says
    PRIMARY KEY (plan, batch, attempt)
);

-- Shares: who is in a sealed batch, to be counted when its masks are added up. Gone then, or when
-- the attempt is dropped.
CREATE TABLE present (
    plan TEXT NOT NULL REFERENCES plans (id),
    batch BIGINT NOT NULL,
    account_mac BYTEA NOT NULL,         -- HMAC(plan key, account)
    PRIMARY KEY (plan, batch, account_mac)
) WITHOUT ROWID;

-- Shares: sums of masks over complete batches, of channels that stay open; gone when they close.
CREATE TABLE masks (
    plan TEXT NOT NULL REFERENCES plans (id),
    channel TEXT NOT NULL,
    mask BIGINT NOT NULL,               -- mod 2^32
    PRIMARY KEY (plan, channel)
);

-- What the analyzer published, byte for byte: public, and kept for good.
CREATE TABLE mirror (
    plan TEXT NOT NULL,
    name TEXT NOT NULL,
    document BYTEA NOT NULL,
    PRIMARY KEY (name, plan)
);
