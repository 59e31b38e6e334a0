//! New passwords: made, or read as one line of the standard input. Never from arguments or the environment, where other processes see
//! them.

use std::io::{self, IsTerminal as _, Read as _, Write as _};

use anyhow::{Context as _, bail};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use secrecy::{ExposeSecret as _, SecretString};
use zeroize::Zeroizing;

use super::sentence;
use crate::auth::{passwords, person, secrets};

/// What stands for a key that there is none of.
const DISABLED: u8 = 0;

/// A new password, and whether it was made here and is to be shown.
pub(super) struct New {
    pub(super) password: SecretString,
    pub(super) made: bool,
}

impl New {
    /// One that will do.
    pub(super) fn get(generate: bool) -> anyhow::Result<Self> {
        let password = if generate { made()? } else { typed()? };
        person::new_password("password", password.expose_secret())
            .map_err(|failure| sentence(&failure))?;
        Ok(Self {
            password,
            made: generate,
        })
    }

    /// Shows it where it was made.
    pub(super) fn show(&self) -> anyhow::Result<()> {
        if !self.made {
            return Ok(());
        }
        super::say("Its password, which is shown only now:")?;
        super::say(self.password.expose_secret())
    }
}

/// Some 120 random bits in groups, with a capital and a digit, as the rules ask.
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
        // One in a hundred has no digit.
        if person::new_password("password", &text).is_ok() {
            return Ok(SecretString::from(text.as_str()));
        }
    }
}

/// From a terminal it is asked for twice and not shown.
fn typed() -> anyhow::Result<SecretString> {
    if !io::stdin().is_terminal() {
        return line(&[]);
    }
    let first = asked("New password: ")?;
    let second = asked("Once more: ")?;
    if first.expose_secret() != second.expose_secret() {
        bail!("the two were not the same; nothing was changed");
    }
    Ok(first)
}

fn asked(prompt: &str) -> anyhow::Result<SecretString> {
    // Before it is asked for, so that nothing that is typed then is shown.
    let silent = Silent::begin().context("the terminal cannot be kept from showing it")?;
    let mut terminal = io::stderr();
    write!(terminal, "{prompt}").and_then(|()| terminal.flush())?;
    let line = line(&silent.given_up);
    drop(silent);
    writeln!(terminal)?;
    line
}

/// One line of the standard input, without its end, unless whoever types it gives up.
fn line(given_up: &[u8]) -> anyhow::Result<SecretString> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(passwords::LONGEST + 3));
    let longest = u64::try_from(passwords::LONGEST + 3)?;
    for byte in io::stdin().lock().take(longest).bytes() {
        let byte = byte.context("cannot read the standard input")?;
        if given_up.contains(&byte) {
            bail!("interrupted; nothing was changed");
        }
        bytes.push(byte);
        if byte == b'\n' {
            break;
        }
    }
    if bytes.is_empty() {
        bail!("no password was given: it is read as one line of the standard input");
    }
    let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = std::str::from_utf8(line).ok();
    Ok(SecretString::from(
        text.context("the password is not UTF-8")?,
    ))
}

/// A terminal that shows nothing of what is typed, for as long as this lives. What otherwise ends or stops the program from the keyboard is
/// read as it is typed meanwhile: a program that was ended would leave the terminal so.
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
        // The first two end the line, so that they are read at once; there are no more such ends.
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
    fn a_password_that_is_made_will_do_and_is_another_each_time() {
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
