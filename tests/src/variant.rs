//! Versions of one module, created by overwriting fields in the data of a compiled component
//! (`tests/fixtures/variant`).

use crate::fixtures;

/// The properties of one version. Each field holds at most 24 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Variant<'a> {
    /// The module's name.
    pub name: &'a str,
    /// Its version.
    pub version: &'a str,
    /// Its behaviour: `serve`, `trap`, `fail` with 500, `wait` for an hour, have `more` routes,
    /// need a `session`, `trap in describe`.
    pub does: &'a str,
    /// The prefix of its paths.
    pub path: &'a str,
}

impl Default for Variant<'_> {
    fn default() -> Self {
        Self {
            name: "variant",
            version: "1.0.0",
            does: "serve",
            path: "/variant/",
        }
    }
}

impl Variant<'_> {
    /// Returns the compiled component of this version.
    pub fn component(&self) -> Vec<u8> {
        let mut bytes = std::fs::read(fixtures().join("fixture_variant.wasm")).unwrap();
        for (field, value) in [
            ("@name=[", self.name),
            ("@version=[", self.version),
            ("@again=[", self.version),
            ("@does=[", self.does),
            ("@path=[", self.path),
        ] {
            let found = bytes
                .windows(field.len())
                .position(|at| at == field.as_bytes());
            let at = found.unwrap() + field.len();
            let end = at + bytes[at..].iter().position(|&b| b == b']').unwrap();
            let text = format!("{value:width$}", width = end - at);
            assert_eq!(text.len(), end - at, "{value:?} is too long");
            bytes[at..end].copy_from_slice(text.as_bytes());
        }
        bytes
    }
}
