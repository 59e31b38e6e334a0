//! Fills the placeholders in the configuration templates. An unknown placeholder is an error. A
//! value that would change the structure of a file is an error too.

use anyhow::{Context as _, bail};

/// Replaces every `{{name}}` of a template with its value.
///
/// # Errors
/// Returns an error if a placeholder has no value, or if its value contains a line break or braces.
/// The error contains the name of the placeholder.
pub fn fill(template: &str, values: &[(&str, &str)]) -> anyhow::Result<String> {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after
            .split_once("}}")
            .context("a template has a placeholder without `}}`")?;
        let value = values.iter().find(|(known, _)| *known == name);
        let (_, value) = value
            .with_context(|| format!("a template has an unknown placeholder {{{{{name}}}}}"))?;
        if value.contains(['\n', '\r', '\0', '{', '}']) {
            bail!(
                "the value of the placeholder {{{{{name}}}}} contains a line break or a brace, which is not allowed"
            );
        }
        filled.push_str(before);
        filled.push_str(value);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_placeholder_is_filled() {
        let filled = fill("a {{x}} b {{y}}{{x}}", &[("x", "1"), ("y", "2")]).unwrap();
        assert_eq!(filled, "a 1 b 21");
    }

    #[test]
    fn an_error_names_an_unknown_placeholder() {
        let error = fill("a {{z}}", &[("x", "1")]).unwrap_err().to_string();
        assert!(error.contains("{{z}}"), "{error}");
        assert!(fill("a {{x", &[("x", "1")]).is_err());
    }

    #[test]
    fn a_value_cannot_add_a_line() {
        assert!(fill("a = {{x}}", &[("x", "1\nb = 2")]).is_err());
    }
}
