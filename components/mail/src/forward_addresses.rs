//! `/api/v1/mail/forward-addresses`: the addresses outside of the service to which rules can
//! forward mail.

use latchmail_sdk::capability::{self, Caller, Error, Filters};
use latchmail_sdk::{Failure, Reply, Request, codes, time};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The error for an address that the account does not have.
const NO_ADDRESS: (latchmail_sdk::Code, &str) = (
    codes::FORWARD_ADDRESS_NOT_FOUND,
    "Forward address not found",
);

/// An address to which rules can forward mail after its confirmation.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"id": "kq3x7mzv2hjw5t6nbd4ryuoa", "address": "ada@elsewhere.example",
    "status": "pending", "requestedAt": "2026-11-20T08:00:00.000Z",
    "expiresAt": "2026-11-21T08:00:00.000Z"}))]
pub(crate) struct ForwardAddress {
    /// The opaque id.
    id: String,
    /// The address, in lower case.
    address: String,
    /// `pending`: the service has sent a code to the address. `confirmed`: rules can use it.
    #[schema(pattern = "^(?:pending|confirmed)$")]
    status: String,
    /// The time at which the service sent the code.
    #[schema(format = DateTime)]
    requested_at: String,
    /// The time until which the address can be confirmed. `null` if it is confirmed.
    #[schema(required, format = DateTime)]
    expires_at: Option<String>,
}

impl From<capability::ForwardAddress> for ForwardAddress {
    fn from(one: capability::ForwardAddress) -> Self {
        let status = if one.confirmed {
            "confirmed"
        } else {
            "pending"
        };
        Self {
            id: one.id,
            address: one.address,
            status: status.into(),
            requested_at: time::iso8601(one.requested_at),
            expires_at: one.expires_at.map(time::iso8601),
        }
    }
}

/// The forward addresses of the account.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ForwardAddressList {
    /// The addresses, in the order of their requests.
    forward_addresses: Vec<ForwardAddress>,
}

/// A new forward address.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"address": "ada@elsewhere.example"}))]
pub(crate) struct ForwardAddressRequest {
    /// The address, without a name.
    #[schema(min_length = 3, max_length = 254)]
    address: String,
}

/// The code of a forward address.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"code": "zq4mx7c2hjw5t6nbd4ryuoak"}))]
pub(crate) struct ForwardAddressCode {
    /// The code that the service sent to the address.
    code: String,
}

/// List forward addresses
///
/// Returns the confirmed addresses, and those that can still be confirmed. Only the owner of a
/// mailbox can list them.
#[utoipa::path(
    get,
    path = "/api/v1/mail/forward-addresses",
    operation_id = "listForwardAddresses",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    responses((
        status = 200,
        description = "The addresses",
        body = ForwardAddressList,
        links(
            ("deleteForwardAddress" = (operation_id = "deleteForwardAddress", parameters(("id" = "$response.body#/forwardAddresses/0/id"))))
        )
    ))
)]
pub(crate) fn list_forward_addresses(
    host: &(impl Filters + Caller),
    _request: &Request,
) -> Result<Reply, Failure> {
    let listed = host.list_forward_addresses();
    let listed = listed.map_err(|error| failure(error, host))?;
    Reply::json(&ForwardAddressList {
        forward_addresses: listed.into_iter().map(Into::into).collect(),
    })
}

/// Add a forward address
///
/// Sends a mail with a code to the address. A reader of the address gives the code to the owner of
/// the mailbox, who confirms the address with it within 24 hours. A new request for an address
/// makes its earlier code invalid. An account can have 10 addresses, and request 10 within 24
/// hours.
#[utoipa::path(
    post,
    path = "/api/v1/mail/forward-addresses",
    operation_id = "addForwardAddress",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    request_body = ForwardAddressRequest,
    responses(
        (
            status = 201,
            description = "The code was sent",
            body = ForwardAddress,
            links(
                ("confirmForwardAddress" = (operation_id = "confirmForwardAddress", parameters(("id" = "$response.body#/id"))))
            )
        ),
        (status = 400, description = "`Invalid JSON body`, `address must be a mail address`; the mail server rejects the address", body = latchmail_sdk::Failed),
        (status = 409, description = "`The forward address is already confirmed`; the account has too many addresses or requests", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn add_forward_address(
    host: &(impl Filters + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let body: ForwardAddressRequest = request.json()?;
    let added = host.request_forward_address(&body.address);
    let added = added.map_err(|error| failure(error, host))?;
    Reply::with_status(201, &ForwardAddress::from(added))
}

/// Confirm a forward address
///
/// Confirms an address with the code that the service sent to it. Rules can then forward mail to
/// the address. Has no effect on a confirmed address.
#[utoipa::path(
    post,
    path = "/api/v1/mail/forward-addresses/{id}/confirm",
    operation_id = "confirmForwardAddress",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(("id" = String, Path, description = "The id of the address")),
    request_body = ForwardAddressCode,
    responses(
        (status = 200, description = "Confirmed", body = ForwardAddress),
        (status = 400, description = "`Invalid JSON body`, `The code is wrong`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Forward address not found`: there is no such address, or its code has expired", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn confirm_forward_address(
    host: &(impl Filters + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let body: ForwardAddressCode = request.json()?;
    let confirmed = host.confirm_forward_address(request.path("id"), &body.code);
    let confirmed = confirmed.map_err(|error| failure(error, host))?;
    Reply::json(&ForwardAddress::from(confirmed))
}

/// Delete a forward address
///
/// Deletes an address, and disables the rules that forward mail to it. If the response is 503 or
/// 500, the address is deleted, but rules may still use it: repeat the request.
#[utoipa::path(
    delete,
    path = "/api/v1/mail/forward-addresses/{id}",
    operation_id = "deleteForwardAddress",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(("id" = String, Path, description = "The id of the address")),
    responses(
        (status = 200, description = "Deleted", body = latchmail_sdk::Succeeded),
        (status = 404, description = "`Forward address not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn delete_forward_address(
    host: &(impl Filters + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let deleted = host.delete_forward_address(request.path("id"));
    deleted.map_err(|error| failure(error, host))?;
    Reply::success()
}

fn failure(error: Error, host: &impl Caller) -> Failure {
    Failure::of(error, NO_ADDRESS, host)
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::testing::{FakeHost, forward_code, json, request};
    use serde_json::{Value, json};

    use super::*;

    fn add(host: &FakeHost, address: &str) -> Result<Reply, Failure> {
        let body = json!({ "address": address }).to_string();
        add_forward_address(host, &request(&[], &[], &body))
    }

    fn confirm(host: &FakeHost, id: &str, code: &str) -> Result<Reply, Failure> {
        let body = json!({ "code": code }).to_string();
        confirm_forward_address(host, &request(&[("id", id)], &[], &body))
    }

    fn list(host: &FakeHost) -> Value {
        json(list_forward_addresses(host, &Request::default()))["forwardAddresses"].clone()
    }

    #[test]
    fn an_address_is_confirmed_with_its_code_and_deleted_with_its_rules() {
        let host = FakeHost::new();
        let added = add(&host, "Eve@Elsewhere.example").unwrap();
        assert_eq!(added.status, 201);
        let added = json(Ok(added));
        assert_eq!(
            (&added["address"], &added["status"]),
            (&json!("eve@elsewhere.example"), &json!("pending"))
        );
        assert_eq!(list(&host), json!([added]));
        let id = added["id"].as_str().unwrap();
        let wrong = confirm(&host, id, "x").unwrap_err();
        assert_eq!((wrong.status, &*wrong.text), (400, "The code is wrong"));
        let confirmed = json(confirm(&host, id, &forward_code(id)));
        assert_eq!(confirmed["status"], "confirmed");
        assert_eq!(confirmed["expiresAt"], Value::Null);
        assert_eq!(add(&host, "eve@elsewhere.example").unwrap_err().status, 409);

        let forward = json!([{ "type": "forward", "address": "eve@elsewhere.example" }]);
        let rules = json!({ "rules": [{ "name": "All", "actions": forward }] }).to_string();
        let rules = json(crate::filters::set_rules(&host, &request(&[], &[], &rules)));
        assert_eq!(rules["rules"][0]["enabled"], true);
        let deleted = delete_forward_address(&host, &request(&[("id", id)], &[], ""));
        assert_eq!(deleted.unwrap().status, 200);
        let rules = json(crate::filters::get_rules(&host, &Request::default()));
        assert_eq!(rules["rules"][0]["enabled"], false);
        assert_eq!(list(&host), json!([]));
        assert_eq!(
            confirm(&host, id, &forward_code(id)).unwrap_err().status,
            404
        );
    }

    #[test]
    fn an_invalid_address_and_too_many_requests_are_refused() {
        let host = FakeHost::new();
        let invalid = add(&host, "Eve <eve@elsewhere.example>").unwrap_err();
        assert_eq!(
            (invalid.status, &*invalid.text),
            (400, "address must be a mail address")
        );
        for number in 0..10 {
            add(&host, &format!("{number}@elsewhere.example")).unwrap();
        }
        let many = add(&host, "eve@elsewhere.example").unwrap_err();
        assert_eq!(many.status, 409);
    }
}
