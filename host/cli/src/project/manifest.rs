//! A crate's manifest without its workspace: what it inherits is written out, as cargo does where it publishes a crate. It knows as much of TOML as
//! the workspace's own manifests use.

use anyhow::{Context as _, bail};

/// The manifest `member` of a crate of `workspace`, standing on its own beside the other crates of it that it uses.
pub(super) fn standalone(member: &str, workspace: &str) -> anyhow::Result<String> {
    let mut text = String::new();
    let mut section = "";
    for line in member.lines() {
        if line.starts_with('[') {
            section = line;
        }
        // Lints are the workspace's business.
        if section == "[lints]" {
            continue;
        }
        let Some(key) = line.strip_suffix(".workspace = true") else {
            text.push_str(line);
            text.push('\n');
            continue;
        };
        let inherited = match section {
            "[package]" => value(workspace, "[workspace.package]", key)?,
            "[dependencies]" => match value(workspace, "[workspace.dependencies]", key)? {
                // A crate of the workspace itself stands beside it.
                own if own.contains("path = ") => format!("{{ path = \"../{key}\" }}"),
                other => other,
            },
            other => bail!("{key} is inherited in {other}"),
        };
        for part in [key, " = ", &inherited, "\n"] {
            text.push_str(part);
        }
    }
    Ok(text.replace("\n\n\n", "\n\n"))
}

/// The value of a key of a section, on one line, as it is written.
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
    fn what_is_inherited_is_written_out() {
        let workspace = "[workspace]\nmembers = [\"a\", \"b\"]\n\n[workspace.package]\nversion = \"0.1.0\"\n\n[workspace.dependencies]\nb = { path = \"b\" }\nserde = { version = \"1\", features = [\"derive\"] }\n";
        let member = "[package]\nname = \"a\"\nversion.workspace = true\n\n[lints]\nworkspace = true\n\n[dependencies]\nb.workspace = true\nserde.workspace = true\n";
        assert_eq!(
            standalone(member, workspace).unwrap(),
            "[package]\nname = \"a\"\nversion = \"0.1.0\"\n\n[dependencies]\nb = { path = \"../b\" }\nserde = { version = \"1\", features = [\"derive\"] }\n"
        );
        let unknown = member.replace("serde", "nothing");
        assert!(standalone(&unknown, workspace).is_err());
    }
}
