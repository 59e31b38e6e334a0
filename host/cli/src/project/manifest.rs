//! Converts the manifest of a workspace member to a manifest without a workspace. Each inherited
//! value is replaced with the value from the workspace, as cargo does when it publishes a crate.
//! The code supports only the TOML syntax that the manifests of this repository use.

use anyhow::{Context as _, bail};

/// Returns the manifest `member` without inherited values. A dependency on a crate of the workspace
/// becomes a path dependency on a folder next to this crate's folder.
pub(super) fn standalone(member: &str, workspace: &str) -> anyhow::Result<String> {
    let mut text = String::new();
    let mut section = "";
    for line in member.lines() {
        if line.starts_with('[') {
            section = line;
        }
        // A project has no section for lints.
        if section == "[lints]" {
            continue;
        }
        let Some((key, own)) = inherited_key(line) else {
            text.push_str(line);
            text.push('\n');
            continue;
        };
        let inherited = match section {
            "[package]" => value(workspace, "[workspace.package]", key)?,
            "[dependencies]" => match value(workspace, "[workspace.dependencies]", key)? {
                // In a project, the folders of the workspace's crates are next to each other.
                member if member.contains("path = ") => format!("{{ path = \"../{key}\" }}"),
                other => other,
            },
            other => bail!("{other} inherits {key}; inheriting this key is not supported"),
        };
        let inherited = match own {
            "" => inherited,
            own => format!("{{ {}, {own} }}", in_braces(&inherited)),
        };
        for part in [key, " = ", &inherited, "\n"] {
            text.push_str(part);
        }
    }
    Ok(text.replace("\n\n\n", "\n\n"))
}

/// Returns the key of a line with an inherited value, and the settings that the line adds to the
/// value, for example `optional = true`.
fn inherited_key(line: &str) -> Option<(&str, &str)> {
    if let Some(key) = line.strip_suffix(".workspace = true") {
        return Some((key, ""));
    }
    let (key, value) = line.split_once(" = { workspace = true, ")?;
    Some((key, value.strip_suffix(" }")?))
}

/// Returns the settings of a dependency without the braces around them.
fn in_braces(dependency: &str) -> String {
    match dependency.strip_prefix("{ ") {
        Some(settings) => settings.trim_end_matches(" }").to_owned(),
        None => format!("version = {dependency}"),
    }
}

/// Returns the TOML text of the value of `key`. The value must be on one line.
fn value(manifest: &str, section: &str, key: &str) -> anyhow::Result<String> {
    let mut lines = manifest.lines().skip_while(|line| *line != section).skip(1);
    let found = lines
        .by_ref()
        .take_while(|line| !line.starts_with('['))
        .find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='));
    let found = found.with_context(|| format!("{section} has no {key}"))?;
    Ok(found.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inherited_values_are_replaced() {
        let workspace = "[workspace]\nmembers = [\"a\", \"b\"]\n\n[workspace.package]\nversion = \"0.1.0\"\n\n[workspace.dependencies]\nb = { path = \"b\" }\nserde = { version = \"1\", features = [\"derive\"] }\n";
        let member = "[package]\nname = \"a\"\nversion.workspace = true\n\n[lints]\nworkspace = true\n\n[dependencies]\nb.workspace = true\nserde.workspace = true\n";
        assert_eq!(
            standalone(member, workspace).unwrap(),
            "[package]\nname = \"a\"\nversion = \"0.1.0\"\n\n[dependencies]\nb = { path = \"../b\" }\nserde = { version = \"1\", features = [\"derive\"] }\n"
        );
        let optional = member.replace(
            "serde.workspace = true",
            "serde = { workspace = true, optional = true }",
        );
        let text = standalone(&optional, workspace).unwrap();
        let dependency = "serde = { version = \"1\", features = [\"derive\"], optional = true }\n";
        assert!(text.contains(dependency), "{text}");
        let unknown = member.replace("serde", "nothing");
        assert!(standalone(&unknown, workspace).is_err());
    }
}
