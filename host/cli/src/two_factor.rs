//! `latchmail account two-factor`: enables and disables two-factor sign-in, and replaces recovery codes. Secrets are printed here and
//! nowhere else.

use std::io::IsTerminal as _;

use anyhow::bail;
use latchmail_accounts::auth::two_factor::{Enrolment, RecoveryCodes};
use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use secrecy::ExposeSecret as _;

use super::{Desk, keys, say, sentence};

pub(crate) async fn on(desk: &Desk, address: &str) -> anyhow::Result<()> {
    let account = desk.account(address).await?;
    let address = &account.address;
    if desk.directory.two_factor(&account.id).await?.is_some() {
        return say(&already_on(address));
    }
    let enrolment = Enrolment::generate(
        &keys(desk)?,
        &account.id,
        address,
        &desk.config.service_name,
    )
    .map_err(|failure| sentence(&failure))?;
    let hashes = enrolment.recovery.hashes();
    let set = desk.directory.set_two_factor(
        &account.id,
        &enrolment.sealed_secret,
        &hashes,
        desk.clock.now(),
        &desk.origin,
    );
    if !set.await? {
        return say(&already_on(address));
    }
    say(&format!(
        "Signing in to {address} requires a code from now on. The following is not shown again. The owner's device needs the secret or the URL."
    ))?;
    say(&format!("\nsecret  {}", enrolment.secret.expose_secret()))?;
    say(&format!("url     {}", enrolment.url.expose_secret()))?;
    if std::io::stdout().is_terminal()
        && let Some(picture) = picture(enrolment.url.expose_secret())
    {
        say(&picture)?;
    }
    show(&enrolment.recovery)
}

pub(crate) async fn off(desk: &Desk, address: &str) -> anyhow::Result<()> {
    let account = desk.account(address).await?;
    let now = desk.clock.now();
    let removed = desk
        .directory
        .remove_two_factor(&account.id, now, &desk.origin)
        .await?;
    let already = if removed { "" } else { " already" };
    say(&format!(
        "Two-factor sign-in is off for {}{already}.",
        account.address
    ))
}

pub(crate) async fn recovery_codes(desk: &Desk, address: &str) -> anyhow::Result<()> {
    let account = desk.account(address).await?;
    let codes = RecoveryCodes::generate().map_err(|failure| sentence(&failure))?;
    let hashes = codes.hashes();
    let replaced =
        desk.directory
            .replace_recovery_codes(&account.id, &hashes, desk.clock.now(), &desk.origin);
    if !replaced.await? {
        bail!(
            "two-factor sign-in is off for {}, so it has no recovery codes",
            account.address
        );
    }
    say(&format!(
        "{} has new recovery codes; the old ones are invalid.",
        account.address
    ))?;
    show(&codes)
}

fn already_on(address: &str) -> String {
    format!(
        "Two-factor sign-in is already on for {address}. For a new secret, switch it off and on again."
    )
}

fn show(codes: &RecoveryCodes) -> anyhow::Result<()> {
    say("\nRecovery codes, each valid once in place of a code:")?;
    codes.shown().try_for_each(|code| say(&code))
}

/// Returns the QR code of `url` for a terminal, or `None` if the URL is too long for a QR code. The code is light on dark, as most
/// terminals are; cameras read both.
fn picture(url: &str) -> Option<String> {
    let code = QrCode::new(url).ok()?;
    let mut picture = code.render::<Dense1x2>();
    picture.dark_color(Dense1x2::Light);
    picture.light_color(Dense1x2::Dark);
    Some(picture.build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_qr_code_of_a_url_fits_a_terminal() {
        let url = "otpauth://totp/Latchmail:somebody%40example%2Eorg?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Latchmail";
        let picture = picture(url).unwrap();
        assert!(picture.lines().all(|line| line.chars().count() < 80));
        assert!(picture.lines().count() < 40);
    }
}
