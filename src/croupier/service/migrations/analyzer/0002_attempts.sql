-- Attempts at a batch of shares that came and whose masks never did. Append-only.
CREATE TABLE drops (
    plan TEXT NOT NULL REFERENCES plans (id),
    batch BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    digest BYTEA NOT NULL,              -- of the bytes that came
    opened BIGINT NOT NULL,             -- reports that opened
    PRIMARY KEY (plan, batch, attempt)
);
