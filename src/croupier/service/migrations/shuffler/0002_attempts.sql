-- A batch of shares may be begun again, as long as no sum of its masks was released.

ALTER TABLE batches ADD COLUMN attempt BIGINT NOT NULL DEFAULT 0;

-- Attempts whose shares were handed on and whose masks were destroyed. Append-only.
CREATE TABLE drops (
    plan TEXT NOT NULL REFERENCES plans (id),
    batch BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    digest BYTEA NOT NULL,              -- of the bytes that were handed on
    opened BIGINT NOT NULL,             -- reports that opened, as the analyzer says
    PRIMARY KEY (plan, batch, attempt)
);

-- Shares: whose participation is given back if the attempt is dropped. Gone when that is decided.
CREATE TABLE present (
    plan TEXT NOT NULL REFERENCES plans (id),
    batch BIGINT NOT NULL,
    account_mac BYTEA NOT NULL,         -- HMAC(plan key, account)
    PRIMARY KEY (plan, batch, account_mac)
);

-- Shares: sums of masks over complete batches, of channels that stay open; gone when they close.
CREATE TABLE masks (
    plan TEXT NOT NULL REFERENCES plans (id),
    channel TEXT NOT NULL,
    mask BIGINT NOT NULL,               -- mod 2^32
    PRIMARY KEY (plan, channel)
);
