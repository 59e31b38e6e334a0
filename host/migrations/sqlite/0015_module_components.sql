-- The bytes of modules beside what is known of them: SQLite reads a row from its beginning, and a list of versions would read each component.

CREATE TABLE module_components (
    module    TEXT  NOT NULL,
    digest    TEXT  NOT NULL,
    component BLOB  NOT NULL,
    PRIMARY KEY (module, digest),
    FOREIGN KEY (module, digest) REFERENCES module_versions (module, digest) ON DELETE CASCADE
);
INSERT INTO module_components (module, digest, component) SELECT module, digest, component FROM module_versions;
ALTER TABLE module_versions DROP COLUMN component;
