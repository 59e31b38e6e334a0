//! New passwords, either generated or read from standard input as one line.
//!
//! Passwords are never read from arguments or the environment, which other processes can see.

use std::io::{self, IsTerminal as _, Read as _, Write as _};

use anyhow::{Context as _, bail};
use latchmail_accounts::auth::{passwords, person};
use latchmail_core::secrets;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use secrecy::{ExposeSecret as _, SecretString};
use zeroize::Zeroizing;

use super::sentence;

/// Value of a special character that is disabled (`_POSIX_VDISABLE`).
const DISABLED: u8 = 0;

/// A new password, and whether it was generated here and so must be shown.
pub(crate) struct New {
    pub(crate) password: SecretString,
    pub(crate) made: bool,
}

impl New {
    /// Generates or reads a password that satisfies the password rules.
    pub(crate) fn get(generate: bool) -> anyhow::Result<Self> {
        let password = if generate { made()? } else { typed()? };
        person::new_password("password", password.expose_secret())
            .map_err(|failure| sentence(&failure))?;
        Ok(Self {
            password,
            made: generate,
        })
    }

    /// Prints the password if it was generated.
    pub(crate) fn show(&self) -> anyhow::Result<()> {
        if !self.made {
            return Ok(());
        }
        super::say("The password, which is not shown again:")?;
        super::say(self.password.expose_secret())
    }
}

/// Generates a password of about 120 random bits, in groups, with an upper-case letter and a digit, as the password rules require.
fn made() -> anyhow::Result<SecretString> {
    loop {
        let symbols = secrets::symbols::<25>().map_err(|failure| sentence(&failure))?;
        let mut text = Zeroizing::new(String::with_capacity(32));
        let mut capital = false;
        for (at, symbol) in symbols.chars().enumerate() {
            if at > 0 && at % 5 == 0 {
                text.push('-');
            }
            if !capital && symbol.is_ascii_lowercase() {
                capital = true;
                text.push(symbol.to_ascii_uppercase());
            } else {
                text.push(symbol);
            }
        }
        // One password in a hundred has no digit and is rejected.
        if person::new_password("password", &text).is_ok() {
            return Ok(SecretString::from(text.as_str()));
        }
    }
}

/// Reads a password from standard input. On a terminal, asks twice and does not echo the input.
fn typed() -> anyhow::Result<SecretString> {
    if !io::stdin().is_terminal() {
        return line(&[]);
    }
    let first = asked("New password: ")?;
    let second = asked("Repeat the password: ")?;
    if first.expose_secret() != second.expose_secret() {
        bail!("the passwords do not match; nothing was changed");
    }
    Ok(first)
}

fn asked(prompt: &str) -> anyhow::Result<SecretString> {
    // Disable echo before the prompt, so that no early input is shown.
    let silent = Silent::begin().context("cannot disable the terminal's echo")?;
    let mut terminal = io::stderr();
    write!(terminal, "{prompt}").and_then(|()| terminal.flush())?;
    let line = line(&silent.given_up);
    drop(silent);
    writeln!(terminal)?;
    line
}

/// Reads one line of standard input, without its line ending. Returns an error if the input contains a byte of `given_up`.
fn line(given_up: &[u8]) -> anyhow::Result<SecretString> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(passwords::MAX_LENGTH + 3));
    let longest = u64::try_from(passwords::MAX_LENGTH + 3)?;
    for byte in io::stdin().lock().take(longest).bytes() {
        let byte = byte.context("cannot read standard input")?;
        if given_up.contains(&byte) {
            bail!("interrupted; nothing was changed");
        }
        bytes.push(byte);
        if byte == b'\n' {
            break;
        }
    }
    if bytes.is_empty() {
        bail!("no password was given: it is read from standard input, as one line");
    }
    let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = std::str::from_utf8(line).ok();
    Ok(SecretString::from(
        text.context("the password is not UTF-8")?,
    ))
}

/// A terminal with echo disabled while this value lives.
///
/// The keys that interrupt, quit or suspend the program are read as input during this time: a program that ends by a signal would leave the
/// terminal without echo.
struct Silent {
    before: Termios,
    given_up: Vec<u8>,
}

impl Silent {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut silent = before.clone();
        silent
            .local_modes
            .remove(LocalModes::ECHO | LocalModes::ISIG);
        let keys = [
            SpecialCodeIndex::VINTR,
            SpecialCodeIndex::VQUIT,
            SpecialCodeIndex::VSUSP,
        ];
        // Make interrupt and quit end the line, so that they are read at once. The terminal has only two such characters; suspend is read
        // with the line.
        let [interrupt, quit, suspend] = keys.map(|key| before.special_codes[key]);
        silent.special_codes[SpecialCodeIndex::VEOL] = interrupt;
        silent.special_codes[SpecialCodeIndex::VEOL2] = quit;
        tcsetattr(io::stdin(), OptionalActions::Flush, &silent)?;
        let mut given_up = vec![interrupt, quit, suspend];
        given_up.retain(|key| *key != DISABLED);
        Ok(Self { before, given_up })
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_generated_password_is_valid_and_unique() {
        let made: HashSet<String> = (0..200)
            .map(|_| made().unwrap().expose_secret().to_owned())
            .collect();
        assert_eq!(made.len(), 200);
        for password in made {
            assert!(
                person::new_password("password", &password).is_ok(),
                "{password}"
            );
            assert_eq!(password.len(), 29);
        }
    }
}
