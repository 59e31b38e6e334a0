//! The sections of a run, and their selection with `--only`.

use crate::operations::{FREQUENT, Operation, RARE};

/// The names of the sections that consist of one function.
const NAMES: [&str; 20] = [
    "memory",
    "idle accounts",
    "module memory",
    "mailbox size",
    "bulk flag",
    "bulk move",
    "search",
    "send",
    "import",
    "several messages",
    "hostile module",
    "module installation",
    "large folder",
    "sandbox",
    "several hosts",
    "observability",
    "not modified",
    "drafts",
    "handler calls",
    "hostile handlers",
];

/// The names of the operations with many clients, in the order of the page.
pub(crate) const CASES: [&str; 9] = [
    "folders",
    "listing of 50",
    "message of 20 kB",
    "attachment of 1 MB",
    "search",
    "flag 20 messages",
    "send of 4 kB",
    "refresh of tokens",
    "MCP tool",
];

/// The selected sections.
pub(crate) struct Sections {
    selected: Vec<String>,
}

impl Sections {
    /// Selects the sections whose names contain one of the strings `only`, or all sections if there
    /// is no string.
    pub(crate) fn select(only: &[String]) -> anyhow::Result<Self> {
        let names = || {
            let operations = FREQUENT.iter().chain(&RARE).map(|one| one.name);
            NAMES
                .map(String::from)
                .into_iter()
                .chain(operations.map(|name| operation_name("route", name)))
                .chain(CASES.map(|name| operation_name("clients", name)))
        };
        for part in only {
            anyhow::ensure!(
                names().any(|name| name.contains(part)),
                "no section has {part:?} in its name; the sections are:\n{}",
                names().collect::<Vec<_>>().join("\n")
            );
        }
        let is_selected =
            |name: &String| only.is_empty() || only.iter().any(|part| name.contains(part));
        Ok(Self {
            selected: names().filter(is_selected).collect(),
        })
    }

    /// Returns whether the section is selected.
    pub(crate) fn include(&self, name: &str) -> bool {
        self.selected.iter().any(|selected| selected == name)
    }

    /// Returns whether the comparison of this operation with a few clients is selected.
    pub(crate) fn include_route(&self, operation: &Operation) -> bool {
        self.include(&operation_name("route", operation.name))
    }

    /// Returns whether the comparison of the operation with this name with many clients is
    /// selected.
    pub(crate) fn include_clients(&self, name: &str) -> bool {
        self.include(&operation_name("clients", name))
    }
}

fn operation_name(kind: &str, name: &str) -> String {
    format!("{kind}: {name}")
}
