//! `latchmail account two-factor`: enables and disables two-factor sign-in, and replaces recovery
//! codes. The commands print new secrets only once.

use std::io::IsTerminal as _;

use anyhow::bail;
use latchmail_accounts::auth::two_factor::{Enrolment, RecoveryCodes};
use latchmail_terminal::output::print_line;
use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use secrecy::ExposeSecret as _;

use crate::context::CliContext;

/// Enables two-factor sign-in, and prints the secret and the recovery codes.
pub(crate) async fn enable(context: &CliContext, address: &str) -> anyhow::Result<()> {
    let account = context.account(address).await?;
    let address = &account.address;
    if context.config.sign_in.is_at_provider(address) {
        bail!(
            "{address} signs in at the identity provider, which is responsible for second factors: enable two-factor sign-in there"
        );
    }
    if context
        .directory
        .second_factors
        .find(&account.id)
        .await?
        .is_some()
    {
        return print_line(&already_enabled(address));
    }
    let enrolment = Enrolment::generate(
        &context.keyring().await?,
        &account.id,
        address,
        &context.config.service_name,
    )?;
    let hashes = enrolment.recovery.hashes();
    let enabled = context.directory.second_factors.set(
        &account.id,
        &enrolment.sealed_secret,
        &hashes,
        context.clock.now(),
        &context.origin,
    );
    if !enabled.await? {
        return print_line(&already_enabled(address));
    }
    print_line(&format!(
        "From now on, signing in to {address} requires a code. The owner's device needs the secret or the URL. The values below are not shown again."
    ))?;
    print_line(&format!("\nsecret  {}", enrolment.secret.expose_secret()))?;
    print_line(&format!("url     {}", enrolment.url.expose_secret()))?;
    if std::io::stdout().is_terminal()
        && let Some(image) = qr_code(enrolment.url.expose_secret())
    {
        print_line(&image)?;
    }
    print_codes(&enrolment.recovery)
}

pub(crate) async fn disable(context: &CliContext, address: &str) -> anyhow::Result<()> {
    let account = context.account(address).await?;
    let now = context.clock.now();
    let removed = context
        .directory
        .second_factors
        .remove(&account.id, now, &context.origin)
        .await?;
    let already = if removed { "" } else { " already" };
    print_line(&format!(
        "Two-factor sign-in is off for {}{already}.",
        account.address
    ))
}

/// Replaces the recovery codes, and prints the new codes.
pub(crate) async fn replace_recovery_codes(
    context: &CliContext,
    address: &str,
) -> anyhow::Result<()> {
    let account = context.account(address).await?;
    let codes = RecoveryCodes::generate()?;
    let hashes = codes.hashes();
    let replaced = context.directory.second_factors.replace_recovery_codes(
        &account.id,
        &hashes,
        context.clock.now(),
        &context.origin,
    );
    if !replaced.await? {
        bail!(
            "two-factor sign-in is off for {}, so it has no recovery codes",
            account.address
        );
    }
    print_line(&format!(
        "{} has new recovery codes; the old ones are invalid.",
        account.address
    ))?;
    print_codes(&codes)
}

fn already_enabled(address: &str) -> String {
    format!(
        "Two-factor sign-in is already on for {address}. For a new secret, switch it off and on again."
    )
}

fn print_codes(codes: &RecoveryCodes) -> anyhow::Result<()> {
    print_line("\nRecovery codes, each valid once instead of a code:")?;
    codes.shown().try_for_each(|code| print_line(&code))
}

/// Returns the QR code of `url` for a terminal, or `None` if the URL is too long. Most terminals
/// have a dark background, so the code is light. Cameras can read a light code on a dark
/// background.
fn qr_code(url: &str) -> Option<String> {
    let code = QrCode::new(url).ok()?;
    let mut renderer = code.render::<Dense1x2>();
    renderer.dark_color(Dense1x2::Light);
    renderer.light_color(Dense1x2::Dark);
    Some(renderer.build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_qr_code_of_a_url_fits_a_terminal() {
        let url = "otpauth://totp/Latchmail:somebody%40example%2Eorg?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Latchmail";
        let image = qr_code(url).unwrap();
        assert!(image.lines().all(|line| line.chars().count() < 80));
        assert!(image.lines().count() < 40);
    }
}
