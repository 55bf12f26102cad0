-- The analyzer's tables. It never stores messages, only what was analysed from them.

CREATE TABLE plans (
    id TEXT PRIMARY KEY NOT NULL,
    document TEXT NOT NULL,
    batch BIGINT NOT NULL,              -- the next one that it learns from
    repairs BIGINT NOT NULL DEFAULT 0,
    clipped BIGINT NOT NULL DEFAULT 0,  -- counts of shares that no honest reports add up to
    renew BIGINT NOT NULL DEFAULT 0     -- 1: the next model is of other batches than the last one
);

CREATE TABLE models (
    plan TEXT NOT NULL REFERENCES plans (id),
    version BIGINT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    model TEXT NOT NULL,
    document TEXT NOT NULL,             -- the same as it was published, signed
    PRIMARY KEY (plan, version)
);

CREATE TABLE batches (
    plan TEXT NOT NULL REFERENCES plans (id),
    batch BIGINT NOT NULL,
    digest BYTEA NOT NULL,              -- of the released bytes that were analysed
    model_hash TEXT,                    -- shares: of the model that reports were made with
    opened BYTEA,                       -- shares: the set that was decided on
    tally BYTEA,                        -- shares: the sum of the analyzer's part
    share_digest BYTEA,                 -- shares: of the shuffler's part
    sums BYTEA,                         -- null until it is learnt from
    version BIGINT,                     -- of the model that was published then
    standing TEXT NOT NULL DEFAULT 'in' -- whether its sums are learnt from
        CHECK (standing IN ('in', 'quarantined', 'left-out')),
    chance DOUBLE PRECISION,            -- that honest users add up to it; null where it cannot be seen
    part TEXT,                          -- what says so
    PRIMARY KEY (plan, batch)
);

-- Append-only.
CREATE TABLE ledger (
    plan TEXT NOT NULL,
    batch BIGINT NOT NULL,
    entry TEXT NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (plan, batch)
);

-- Attempts at a batch of shares that came and whose masks never did. Append-only.
CREATE TABLE drops (
    plan TEXT NOT NULL REFERENCES plans (id),
    batch BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    digest BYTEA NOT NULL,              -- of the bytes that came
    opened BIGINT NOT NULL,             -- reports that opened
    PRIMARY KEY (plan, batch, attempt)
);
