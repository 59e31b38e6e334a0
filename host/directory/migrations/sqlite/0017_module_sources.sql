-- The artifact of a registry that contained a version. NULL if the version has another source.
ALTER TABLE module_versions ADD COLUMN reference TEXT;  -- oci://HOST/REPOSITORY:TAG
ALTER TABLE module_versions ADD COLUMN artifact TEXT;   -- the digest of the artifact's manifest
