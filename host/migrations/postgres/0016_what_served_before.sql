-- What served before what serves: a version that was rolled away from is not gone back to by itself.

ALTER TABLE module_versions ADD COLUMN served BIGINT;  -- the higher, the later it began to serve; none where it was rolled away from
-- Until now a roll back went by the order of installation.
UPDATE module_versions SET served = rank WHERE rank <= (
    SELECT other.rank FROM module_versions AS other
    JOIN modules ON modules.module = other.module AND modules.digest = other.digest
    WHERE other.module = module_versions.module);
