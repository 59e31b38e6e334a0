//! Generates new passwords, or reads a password from standard input as one line.
//!
//! Passwords are never read from arguments or from the environment, because other processes can see both.

use std::io::{self, IsTerminal as _, Read as _, Write as _};

use anyhow::{Context as _, bail};
use latchmail_accounts::auth::{passwords, person};
use latchmail_core::secrets;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use secrecy::{ExposeSecret as _, SecretString};
use zeroize::Zeroizing;

use crate::output::print_line;

/// The value that disables a special character of a terminal (`_POSIX_VDISABLE`).
const DISABLED: u8 = 0;

/// A new password. If the program generated the password, it must print the password for the operator.
pub(crate) struct NewPassword {
    pub(crate) password: SecretString,
    generated: bool,
}

impl NewPassword {
    /// Generates a password, or reads one that satisfies the password rules.
    pub(crate) fn generate_or_read(generate: bool) -> anyhow::Result<Self> {
        let password = if generate {
            generate_password()?
        } else {
            read_password()?
        };
        person::new_password("password", password.expose_secret())?;
        Ok(Self {
            password,
            generated: generate,
        })
    }

    /// Prints the password if the program generated it.
    pub(crate) fn print_if_generated(&self) -> anyhow::Result<()> {
        if !self.generated {
            return Ok(());
        }
        print_line("The password, which is not shown again:")?;
        print_line(self.password.expose_secret())
    }
}

/// Generates a password with about 120 random bits, in groups of five characters. The password contains an upper-case letter and a digit, because the password
/// rules require both.
fn generate_password() -> anyhow::Result<SecretString> {
    loop {
        let symbols = secrets::symbols::<25>()?;
        let mut text = Zeroizing::new(String::with_capacity(32));
        let mut has_upper_case = false;
        for (index, symbol) in symbols.chars().enumerate() {
            if index > 0 && index % 5 == 0 {
                text.push('-');
            }
            if !has_upper_case && symbol.is_ascii_lowercase() {
                has_upper_case = true;
                text.push(symbol.to_ascii_uppercase());
            } else {
                text.push(symbol);
            }
        }
        // About one password in a hundred has no digit. In this case, the loop generates another password.
        if person::new_password("password", &text).is_ok() {
            return Ok(SecretString::from(text.as_str()));
        }
    }
}

/// Reads a password from standard input. On a terminal, asks for the password twice and does not display it.
fn read_password() -> anyhow::Result<SecretString> {
    if !io::stdin().is_terminal() {
        return read_line(&[]);
    }
    let first = prompt_line("New password: ")?;
    let second = prompt_line("Repeat the password: ")?;
    if first.expose_secret() != second.expose_secret() {
        bail!("the passwords do not match; nothing was changed");
    }
    Ok(first)
}

fn prompt_line(prompt: &str) -> anyhow::Result<SecretString> {
    // The echo is disabled before the prompt, so that the terminal does not display characters that are typed early.
    let echo_off = EchoOff::begin().context("cannot disable the terminal's echo")?;
    let mut terminal = io::stderr();
    write!(terminal, "{prompt}").and_then(|()| terminal.flush())?;
    let line = read_line(&echo_off.abort_keys);
    drop(echo_off);
    writeln!(terminal)?;
    line
}

/// Reads one line of standard input, and returns it without its line ending. Returns an error if the input contains a byte of `abort_keys`.
fn read_line(abort_keys: &[u8]) -> anyhow::Result<SecretString> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(passwords::MAX_LENGTH + 3));
    let limit = u64::try_from(passwords::MAX_LENGTH + 3)?;
    for byte in io::stdin().lock().take(limit).bytes() {
        let byte = byte.context("cannot read standard input")?;
        if abort_keys.contains(&byte) {
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

/// Disables the echo of the terminal until the value is dropped.
///
/// During this time, the keys that interrupt, quit or suspend the program are normal input. A program that is ended by a signal would leave the terminal
/// without echo.
struct EchoOff {
    before: Termios,
    abort_keys: Vec<u8>,
}

impl EchoOff {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut settings = before.clone();
        settings
            .local_modes
            .remove(LocalModes::ECHO | LocalModes::ISIG);
        let keys = [
            SpecialCodeIndex::VINTR,
            SpecialCodeIndex::VQUIT,
            SpecialCodeIndex::VSUSP,
        ];
        // The interrupt key and the quit key end the line, so that the program reads them immediately. A terminal supports only two additional end-of-line
        // characters, so the suspend key is read together with the rest of the line.
        let [interrupt, quit, suspend] = keys.map(|key| before.special_codes[key]);
        settings.special_codes[SpecialCodeIndex::VEOL] = interrupt;
        settings.special_codes[SpecialCodeIndex::VEOL2] = quit;
        tcsetattr(io::stdin(), OptionalActions::Flush, &settings)?;
        let mut abort_keys = vec![interrupt, quit, suspend];
        abort_keys.retain(|key| *key != DISABLED);
        Ok(Self { before, abort_keys })
    }
}

impl Drop for EchoOff {
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
        let passwords: HashSet<String> = (0..200)
            .map(|_| generate_password().unwrap().expose_secret().to_owned())
            .collect();
        assert_eq!(passwords.len(), 200);
        for password in passwords {
            assert!(
                person::new_password("password", &password).is_ok(),
                "{password}"
            );
            assert_eq!(password.len(), 29);
        }
    }
}
