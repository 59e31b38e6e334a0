//! Generates new passwords, or reads them from standard input as one line.
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

use crate::output::print_line;

/// Value of a special character that is disabled (`_POSIX_VDISABLE`).
const DISABLED: u8 = 0;

/// A new password. The operator must see it if the program generated it.
pub(crate) struct NewPassword {
    pub(crate) password: SecretString,
    generated: bool,
}

impl NewPassword {
    /// Generates or reads a password that satisfies the password rules.
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

    /// Prints the password if it was generated.
    pub(crate) fn print_if_generated(&self) -> anyhow::Result<()> {
        if !self.generated {
            return Ok(());
        }
        print_line("The password, which is not shown again:")?;
        print_line(self.password.expose_secret())
    }
}

/// Generates a password of about 120 random bits in groups of five characters. It has an upper-case letter and a digit, as the password rules
/// require.
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
        // About one password in a hundred has no digit. Another one is generated instead.
        if person::new_password("password", &text).is_ok() {
            return Ok(SecretString::from(text.as_str()));
        }
    }
}

/// Reads a password from standard input. On a terminal, asks twice and does not echo the input.
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
    // Disable echo before the prompt, so that no early input is shown.
    let echo_off = EchoOff::begin().context("cannot disable the terminal's echo")?;
    let mut terminal = io::stderr();
    write!(terminal, "{prompt}").and_then(|()| terminal.flush())?;
    let line = read_line(&echo_off.abort_keys);
    drop(echo_off);
    writeln!(terminal)?;
    line
}

/// Reads one line of standard input, without its line ending. Returns an error if the input contains a byte of `abort_keys`.
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

/// Disables the echo of the terminal until drop.
///
/// During this time, the keys that interrupt, quit or suspend the program are normal input, because a program that ends by a signal would
/// leave the terminal without echo.
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
        // Interrupt and quit end the line, so that they are read at once. A terminal has only two additional end-of-line characters, so
        // suspend is read with the rest of the line.
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
