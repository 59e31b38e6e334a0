//! Reads the URL of a database that a command needs.
//!
//! All users of a machine can read the arguments of a process. So a URL with a password must be in
//! a file or in standard input. An argument can contain only a URL without a password.

use std::io::{self, Read as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use latchmail_core::secret_file;
use url::Url;
use zeroize::Zeroizing;

/// Maximum number of bytes that are read from standard input.
const LARGEST: u64 = 64 * 1024;

/// Returns the URL in the argument `url` of the option `option`, or in the file `file` of the
/// option `option` followed by `-file`. The file `-` is standard input.
///
/// # Errors
/// Returns an error if the argument contains a password, or if the file cannot be read or is
/// accessible to other users.
pub fn read(
    option: &str,
    url: Option<&str>,
    file: Option<&Path>,
) -> anyhow::Result<Option<String>> {
    if let Some(url) = url {
        if has_password(url) {
            bail!(
                "{option} contains a password, which all users of this machine can see in the list of processes. Change the password, write the URL to a file \
                 that only you can read, and use {option}-file FILE, or `{option}-file -` to read the URL from standard input"
            );
        }
        return Ok(Some(url.to_owned()));
    }
    let Some(file) = file else {
        return Ok(None);
    };
    let text = if file == Path::new("-") {
        let mut text = Zeroizing::new(String::new());
        io::stdin()
            .take(LARGEST)
            .read_to_string(&mut text)
            .context("cannot read standard input")?;
        text
    } else {
        secret_file::read_text("the file", file)?
    };
    match text.trim() {
        "" => bail!("{option}-file contains no URL"),
        url => Ok(Some(url.to_owned())),
    }
}

/// Returns `true` if a URL contains a password. Also returns `true` if the URL is invalid and
/// contains `@`, because a password could precede the `@`.
fn has_password(url: &str) -> bool {
    let Ok(parsed) = Url::parse(url) else {
        return url.contains('@');
    };
    parsed.password().is_some() || parsed.query_pairs().any(|(name, _)| name == "password")
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const URL: &str = "postgres://mail:secret@db.example/latchmail";

    #[test]
    fn an_argument_with_a_password_is_refused_and_not_repeated() {
        for url in [
            URL,
            "postgres://db.example/a?user=mail&password=secret",
            "postgres://mail:secret@[",
        ] {
            let error = read("--mail-database", Some(url), None)
                .unwrap_err()
                .to_string();
            assert!(error.contains("--mail-database-file"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        let url = "postgres://mail@%2Frun%2Fpostgresql/latchmail";
        assert_eq!(
            read("--database", Some(url), None).unwrap().as_deref(),
            Some(url)
        );
        assert_eq!(read("--database", None, None).unwrap(), None);
    }

    #[test]
    fn a_url_with_a_password_is_read_from_a_private_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        write(file.path(), format!("{URL}\n")).unwrap();
        let url = || read("--database", None, Some(file.path()));
        assert_eq!(url().unwrap().as_deref(), Some(URL));
        set_permissions(file.path(), Permissions::from_mode(0o644)).unwrap();
        assert!(url().unwrap_err().to_string().contains("chmod 600"));
        set_permissions(file.path(), Permissions::from_mode(0o600)).unwrap();
        write(file.path(), "\n").unwrap();
        assert!(url().unwrap_err().to_string().contains("no URL"));
    }
}
