//! The sections of a run, and their selection with `--only`.

use crate::operations::{FREQUENT, Operation, RARE};

/// The names of the sections that consist of one function.
const NAMES: [&str; 13] = [
    "memory",
    "idle accounts",
    "module memory",
    "mailbox size",
    "bulk flag",
    "bulk move",
    "search",
    "send",
    "hostile module",
    "module installation",
    "large folder",
    "sandbox",
    "several hosts",
];

/// The selected sections.
pub(crate) struct Sections {
    selected: Vec<String>,
}

impl Sections {
    /// Selects the sections whose names contain one of the strings `only`, or all sections if there is no string.
    pub(crate) fn select(only: &[String]) -> anyhow::Result<Self> {
        let names = || {
            let operations = |kind, operations: &'static [Operation]| {
                operations.iter().map(move |one| operation_name(kind, one))
            };
            NAMES
                .map(String::from)
                .into_iter()
                .chain(operations("route", &FREQUENT))
                .chain(operations("route", &RARE))
                .chain(operations("concurrency", &FREQUENT))
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

    /// Returns whether the section of this kind and operation is selected.
    pub(crate) fn include_operation(&self, kind: &str, operation: &Operation) -> bool {
        self.include(&operation_name(kind, operation))
    }
}

fn operation_name(kind: &str, operation: &Operation) -> String {
    format!("{kind}: {}", operation.name)
}
