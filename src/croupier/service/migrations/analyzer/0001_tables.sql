-- The analyzer's tables. It never stores messages, only what was analysed from them.

CREATE TABLE plans (
    id TEXT PRIMARY KEY NOT NULL,
    document TEXT NOT NULL,
    batch BIGINT NOT NULL,              -- the next one that it learns from
    repairs BIGINT NOT NULL DEFAULT 0,
    clipped BIGINT NOT NULL DEFAULT 0   -- counts of shares that no honest reports add up to
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
