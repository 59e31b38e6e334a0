//! The URL paths of modules in the API of the operator's socket.

use anyhow::bail;
use latchmail_terminal::output::escape;

/// Returns the URL path of a module. Returns an error for an invalid name, because such a name
/// could select a different path.
pub(super) fn module_path(name: &str) -> anyhow::Result<String> {
    let valid = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if name.is_empty() || !name.bytes().all(valid) {
        bail!(
            "`{}` is not a valid module name: use lowercase letters, digits and hyphens",
            escape(name)
        );
    }
    Ok(format!("/{name}"))
}
