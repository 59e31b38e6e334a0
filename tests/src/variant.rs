//! Versions of modules, created by overwriting fields in the data of a compiled component
//! (`tests/fixtures/variant`, `tests/fixtures/actor`, `tests/fixtures/planted`,
//! `tests/fixtures/scenarios`).

use std::path::Path;

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
        let fields = [
            ("@name=[", self.name),
            ("@version=[", self.version),
            ("@again=[", self.version),
            ("@does=[", self.does),
            ("@path=[", self.path),
        ];
        overwritten(&fixtures().join("fixture_variant.wasm"), &fields)
    }
}

/// The properties of a module with handlers. The field `types` holds at most 64 bytes, `timers` at
/// most 60, and the others at most 24.
#[derive(Clone, Copy, Debug)]
pub struct Actor<'a> {
    /// The module's name.
    pub name: &'a str,
    /// The prefix of its paths.
    pub path: &'a str,
    /// The types of its events, separated by commas. Empty for all types, `none` for no events.
    pub types: &'a str,
    /// The role of the folders of its events. Empty for all folders.
    pub role: &'a str,
    /// Its timers: `NAME=SECONDS` or `NAME=CRON`, separated by semicolons, or `none`.
    pub timers: &'a str,
}

impl Default for Actor<'_> {
    fn default() -> Self {
        Self {
            name: "actor",
            path: "/actor/",
            types: "message.created",
            role: "",
            timers: "none",
        }
    }
}

impl Actor<'_> {
    /// Returns the compiled component with these properties.
    pub fn component(&self) -> Vec<u8> {
        self.component_in(&fixtures())
    }

    /// Returns the compiled component, from the fixture in this folder.
    pub fn component_in(&self, folder: &Path) -> Vec<u8> {
        let fields = [
            ("@name=[", self.name),
            ("@path=[", self.path),
            ("@types=[", self.types),
            ("@role=[", self.role),
            ("@timers=[", self.timers),
        ];
        overwritten(&folder.join("fixture_actor.wasm"), &fields)
    }
}

/// A version of a module that differs in one thing, at most 24 bytes (`tests/fixtures/planted`).
/// `nothing` is the version without a difference.
#[derive(Clone, Copy, Debug)]
pub struct Planted<'a>(pub &'a str);

impl Planted<'_> {
    /// Returns the compiled component of this version.
    pub fn component(&self) -> Vec<u8> {
        let file = fixtures().join("fixture_planted.wasm");
        overwritten(&file, &[("@does=[", self.0)])
    }
}

/// A module with the name `mcp` or `mail` in place of the built-in module. It imports every
/// interface and performs any call of the contract (`tests/fixtures/scenarios`). `POST /mcp` and
/// `POST /api/v1/mail/puppet` take `{"call": …, "with": …}`.
#[derive(Clone, Copy, Debug)]
pub struct Puppet<'a>(pub &'a str);

impl Puppet<'_> {
    /// Returns the compiled component with this name.
    pub fn component(&self) -> Vec<u8> {
        let file = fixtures().join("fixture_scenarios.wasm");
        overwritten(&file, &[("@name=[", self.0)])
    }
}

/// Returns a fixture with other values in these fields.
fn overwritten(file: &Path, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = std::fs::read(file).unwrap();
    for (field, value) in fields {
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
