//! Which configuration a verb works with.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::bail;

use crate::config::{STATE, STATE_FILE};

/// The file that was given, else the one that the environment names, else what `latchmail dev` left.
pub(super) fn locate(
    given: Option<&Path>,
    environment: &HashMap<String, String>,
) -> anyhow::Result<PathBuf> {
    let named = |variable: &str| environment.get(variable).filter(|value| !value.is_empty());
    if let Some(file) = given {
        return Ok(file.to_owned());
    }
    if let Some(file) = named("LATCHMAIL_CONFIG") {
        return Ok(file.into());
    }
    let state = named("LATCHMAIL_STATE").map_or(STATE, String::as_str);
    let left = Path::new(state).join(STATE_FILE);
    if left.is_file() {
        return Ok(left);
    }
    bail!(
        "which service? Give its configuration with --config FILE or LATCHMAIL_CONFIG; there is no {}, which `latchmail dev` leaves",
        left.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> HashMap<String, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).into(), (*value).into());
        variables.iter().map(owned).collect()
    }

    #[test]
    fn what_is_given_goes_over_what_is_named_and_that_over_what_was_left() {
        let state = std::env::temp_dir().join(format!("lm-operator-{}", std::process::id()));
        std::fs::create_dir(&state).unwrap();
        let folder = state.to_str().unwrap();
        let named = ("LATCHMAIL_CONFIG", "/etc/latchmail.toml");
        let both = environment(&[named, ("LATCHMAIL_STATE", folder)]);
        let left = environment(&[("LATCHMAIL_CONFIG", ""), ("LATCHMAIL_STATE", folder)]);

        let given = Path::new("given.toml");
        assert_eq!(locate(Some(given), &both).unwrap(), given);
        assert_eq!(
            locate(None, &both).unwrap(),
            Path::new("/etc/latchmail.toml")
        );
        let nothing = locate(None, &left).unwrap_err().to_string();
        assert!(nothing.contains("--config FILE"), "{nothing}");
        std::fs::write(state.join("latchmail.toml"), "").unwrap();
        assert_eq!(locate(None, &left).unwrap(), state.join("latchmail.toml"));
        std::fs::remove_dir_all(&state).unwrap();
    }
}
