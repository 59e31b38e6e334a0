-- What bounds the guessing of two-factor codes.

ALTER TABLE two_factor ADD COLUMN wrong_codes BIGINT NOT NULL DEFAULT 0;      -- in a row, the last ones
ALTER TABLE two_factor ADD COLUMN refused_until BIGINT NOT NULL DEFAULT 0;    -- no code is taken before this; recovery codes are
