//! `latchmail mail login` and `logout`: the device grant (RFC 8628). The command shows a code, and
//! the user enters it on a page of the service in a browser on any machine.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use latchmail_terminal::input::parse_address;
use latchmail_terminal::output::{escape, print_line};
use serde_json::Value;
use tokio::time::sleep;

use super::api::{Api, CLIENT, NOT_SIGNED_IN};
use super::now;
use super::store::Grant;
use crate::exit::Status;

const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
const READ_SCOPES: &str = "mail:read aliases:read";
const ALL_SCOPES: &str = "mail:read mail:write mail:send aliases:read aliases:write";

/// Arguments of `latchmail mail login`.
#[derive(Debug, clap::Args)]
pub struct Login {
    /// Request no rights to send or change mail, and to create aliases.
    #[arg(long)]
    read_only: bool,
    /// Address from which `send` sends [default: the address of the account].
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
}

/// The endpoints of the authorization server.
struct Endpoints {
    device: String,
    token: String,
    revocation: Option<String>,
}

pub(super) async fn login(api: &mut Api, login: Login) -> anyhow::Result<()> {
    let address = login.address.as_deref().map(parse_address).transpose()?;
    let endpoints = endpoints(api).await?;
    let scope = if login.read_only {
        READ_SCOPES
    } else {
        ALL_SCOPES
    };
    let fields = [("client_id", CLIENT), ("scope", scope)];
    let (status, device) = api.form(&endpoints.device, &fields).await?;
    if !status.is_success() {
        bail!("the service refused the sign-in: {}", error_text(&device));
    }
    let field = |name: &str| {
        let text = device[name].as_str();
        text.with_context(|| format!("the response of the service has no {name}"))
    };
    let device_code = field("device_code")?;
    let text = format!(
        "Open {} in a browser, and enter the code {}",
        escape(field("verification_uri")?),
        escape(field("user_code")?)
    );
    // Standard output is for results.
    let _ = writeln!(std::io::stderr(), "{text}");
    let mut interval = device["interval"].as_u64().unwrap_or(5).clamp(1, 60);
    let expires_at = now() + device["expires_in"].as_i64().unwrap_or(600);
    let response = loop {
        sleep(Duration::from_secs(interval)).await;
        let fields = [
            ("grant_type", DEVICE_GRANT),
            ("client_id", CLIENT),
            ("device_code", device_code),
        ];
        // A request that fails for now is repeated at the next interval.
        let (status, response) = match api.form(&endpoints.token, &fields).await {
            Ok(response) => response,
            Err(_) if now() < expires_at => continue,
            Err(error) => return Err(error),
        };
        if status.is_success() {
            break response;
        }
        match response["error"].as_str() {
            Some("authorization_pending") => {}
            Some("slow_down") => interval += 5,
            Some("access_denied") => return Err(refused("the sign-in was denied")),
            Some("expired_token") => return Err(refused("the code has expired; sign in again")),
            _ if status.is_server_error() || status.as_u16() == 429 => interval += 5,
            _ => bail!("the service refused the sign-in: {}", error_text(&response)),
        }
        if now() >= expires_at {
            return Err(refused("the code has expired; sign in again"));
        }
    };
    let grant = Grant {
        access_token: String::new(),
        refresh_token: String::new(),
        expires_at: 0,
        token_endpoint: endpoints.token,
        revocation_endpoint: endpoints.revocation,
        address,
    };
    let grant = grant.refreshed(&response)?;
    let _lock = api.store.lock().await?;
    api.store.save(api.base(), &grant).await?;
    api.store.set_last_url(api.base())?;
    print_line("You are signed in.")
}

pub(super) async fn logout(api: &mut Api) -> anyhow::Result<()> {
    let _lock = api.store.lock().await?;
    let Some(grant) = api.store.load(api.base()).await? else {
        return print_line("You are not signed in.");
    };
    // The tokens are deleted here even if the service cannot be reached.
    let revoked = match &grant.revocation_endpoint {
        Some(endpoint) => {
            let fields = [("client_id", CLIENT), ("token", &*grant.refresh_token)];
            api.form(endpoint, &fields)
                .await
                .map(|(status, _)| status.is_success())
        }
        None => Ok(false),
    };
    api.store.delete(api.base()).await?;
    match revoked {
        Ok(true) => print_line("You are signed out."),
        Ok(false) => bail!("the tokens are deleted here, but the service did not revoke them"),
        Err(error) => Err(error.context("the tokens are deleted here, but not revoked")),
    }
}

/// Finds the endpoints of the authorization server (RFC 9728, RFC 8414).
async fn endpoints(api: &Api) -> anyhow::Result<Endpoints> {
    let resource = format!("{}/.well-known/oauth-protected-resource", api.base());
    let resource = api.public(&resource).await?;
    let server = resource["authorization_servers"][0].as_str();
    let server = server.context("the service has no authorization server")?;
    let server = server.trim_end_matches('/');
    let metadata = format!("{server}/.well-known/oauth-authorization-server");
    let metadata = api.public(&metadata).await?;
    let endpoint = |name: &str| metadata[name].as_str().map(str::to_owned);
    let no_devices = || anyhow!("the authorization server of the service has no device grant");
    Ok(Endpoints {
        device: endpoint("device_authorization_endpoint").ok_or_else(no_devices)?,
        token: endpoint("token_endpoint").ok_or_else(no_devices)?,
        revocation: endpoint("revocation_endpoint"),
    })
}

/// Returns the text of an error of the authorization server (RFC 6749, section 5.2).
fn error_text(response: &Value) -> String {
    let text = response["error_description"].as_str();
    let text = text.or_else(|| response["error"].as_str());
    text.map_or_else(|| "unknown".to_owned(), escape)
}

fn refused(text: &str) -> anyhow::Error {
    Status::new(NOT_SIGNED_IN, text).into()
}
