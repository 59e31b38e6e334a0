//! Checks the mode of the configuration file. The file can contain passwords.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use config::{Config as Source, File, FileFormat};
use url::Url;

use super::unreadable;
use crate::error::StartError;
use crate::secret_file;

/// The mode bits that allow the group and other users to write.
const WRITABLE: u32 = 0o022;

/// The keys whose values are URLs that can contain a password.
const URLS: [&str; 2] = ["database.url", "redis.url"];

/// Checks that no other user can write to a configuration file and, if the file contains a
/// password, that no other user can read it.
pub(super) fn check(file: &Path) -> Result<(), StartError> {
    let metadata = fs::metadata(file).map_err(|e| unreadable(file, &e))?;
    let text = fs::read_to_string(file).map_err(|e| unreadable(file, &e))?;
    if has_password(&text) {
        let user = secret_file::current_user();
        return secret_file::check("the configuration", file, &metadata, user)
            .map_err(|error| StartError::new(format!("{error}. It contains a password")));
    }
    if metadata.mode() & WRITABLE != 0 {
        let file = file.display();
        return Err(StartError::new(format!(
            "the configuration {file} is writable by other users (mode {:03o}); run chmod go-w {file}",
            metadata.mode() & 0o777
        )));
    }
    Ok(())
}

/// Returns `true` if a URL in the text of a configuration file contains a password. Passwords in
/// the environment are not in the file.
fn has_password(text: &str) -> bool {
    let source = Source::builder().add_source(File::from_str(text, FileFormat::Toml));
    let Ok(source) = source.build() else {
        return false;
    };
    let is_password = |url: &Url| {
        url.password().is_some() || url.query_pairs().any(|(name, _)| name == "password")
    };
    let urls = URLS.iter().filter_map(|key| source.get_string(key).ok());
    let mut urls = urls.filter_map(|url| Url::parse(&url).ok());
    urls.any(|url| is_password(&url))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const PASSWORD: &str =
        "[database]\nurl = \"postgres://latchmail:secret@db.example/latchmail\"\n";

    fn checked(text: &str, mode: u32) -> Option<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
        check(file.path()).err().map(|error| error.to_string())
    }

    #[test]
    fn only_a_configuration_with_a_password_must_be_private() {
        for text in [
            "",
            "[database]\nurl = \"sqlite:a.db\"\n",
            "redis.url = 'redis://127.0.0.1'",
        ] {
            assert_eq!(checked(text, 0o644), None, "{text}");
        }
        for text in [
            PASSWORD,
            "redis.url = 'redis://:secret@127.0.0.1'",
            "database.url = 'postgres://db.example/a?user=a&password=secret'",
        ] {
            let error = checked(text, 0o644).unwrap();
            assert!(
                error.contains("contains a password") && !error.contains("secret"),
                "{error}"
            );
            assert_eq!(checked(text, 0o600), None, "{text}");
        }
    }

    #[test]
    fn no_other_user_can_write_to_the_configuration() {
        for mode in [0o664, 0o646, 0o660] {
            for text in ["", PASSWORD] {
                let error = checked(text, mode).unwrap();
                assert!(
                    error.contains("writable by other users"),
                    "{mode:o}: {error}"
                );
            }
        }
    }
}
