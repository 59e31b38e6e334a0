//! The configuration, the resource types and the schemas (RFC 7643, sections 5 to 7; RFC 7644,
//! section 4).

use http::StatusCode;
use latchmail_core::codes;
use latchmail_core::error::Failure;
use serde_json::{Value, json};

use super::users::{MAX_COUNT, scim_json};
use super::{BASE, USER};
use crate::message::{Request, Response};
use crate::provisioning::OperatorState;
use crate::provisioning::request::segment;
use crate::rejection::Rejection;

const LIST_RESPONSE: &str = "urn:ietf:params:scim:api:messages:2.0:ListResponse";
const CONFIG: &str = "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig";
const RESOURCE_TYPE: &str = "urn:ietf:params:scim:schemas:core:2.0:ResourceType";
const SCHEMA: &str = "urn:ietf:params:scim:schemas:core:2.0:Schema";

/// Shows the supported features of SCIM.
pub(super) fn config<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    refuse_filter(request)?;
    let body = json!({
        "schemas": [CONFIG],
        "patch": { "supported": true },
        "bulk": { "supported": false, "maxOperations": 0, "maxPayloadSize": 0 },
        "filter": { "supported": true, "maxResults": MAX_COUNT },
        "changePassword": { "supported": true },
        "sort": { "supported": false },
        "etag": { "supported": true },
        "authenticationSchemes": [{
            "type": "oauthbearertoken",
            "name": "Operator token",
            "description": "An operator token with the scope `scim`, as a bearer token",
            "primary": true,
        }],
        "meta": {
            "resourceType": "ServiceProviderConfig",
            "location": format!("{}{BASE}/ServiceProviderConfig", state.origin_url(request)),
        },
    });
    Ok(scim_json(StatusCode::OK, &body))
}

/// Lists the resource types.
pub(super) fn resource_types<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    refuse_filter(request)?;
    let body = list_of(&resource_type(&state.origin_url(request)));
    Ok(scim_json(StatusCode::OK, &body))
}

/// Shows a resource type.
pub(super) fn show_resource_type<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    if segment(request, "id") != "User" {
        return Err(not_found());
    }
    let body = resource_type(&state.origin_url(request));
    Ok(scim_json(StatusCode::OK, &body))
}

/// Lists the schemas.
pub(super) fn schemas<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    refuse_filter(request)?;
    let body = list_of(&schema(&state.origin_url(request)));
    Ok(scim_json(StatusCode::OK, &body))
}

/// Shows a schema.
pub(super) fn show_schema<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    if !segment(request, "id").eq_ignore_ascii_case(USER) {
        return Err(not_found());
    }
    let body = schema(&state.origin_url(request));
    Ok(scim_json(StatusCode::OK, &body))
}

fn not_found() -> Rejection {
    Failure::not_found(codes::ROUTE_NOT_FOUND, "There is no such route").into()
}

/// Refuses a filter of a list of this module (RFC 7644, section 4).
fn refuse_filter(request: &Request) -> Result<(), Rejection> {
    match request.query("filter") {
        None => Ok(()),
        Some(_) => Err(Rejection::new(
            StatusCode::FORBIDDEN,
            codes::FILTER_NOT_ALLOWED,
            "This list cannot be filtered",
        )),
    }
}

fn list_of(resource: &Value) -> Value {
    json!({
        "schemas": [LIST_RESPONSE],
        "totalResults": 1,
        "startIndex": 1,
        "itemsPerPage": 1,
        "Resources": [resource],
    })
}

fn resource_type(origin: &str) -> Value {
    json!({
        "schemas": [RESOURCE_TYPE],
        "id": "User",
        "name": "User",
        "description": "An account",
        "endpoint": "/Users",
        "schema": USER,
        "schemaExtensions": [],
        "meta": {
            "resourceType": "ResourceType",
            "location": format!("{origin}{BASE}/ResourceTypes/User"),
        },
    })
}

/// Returns the schema of users, with the attributes that the service stores.
fn schema(origin: &str) -> Value {
    let mut user_name = text(
        "userName",
        "The mail address, or its name on the first domain",
    );
    user_name["required"] = true.into();
    user_name["uniqueness"] = "server".into();
    let mut password = text("password", "The password. An account needs none");
    password["mutability"] = "writeOnly".into();
    password["returned"] = "never".into();
    password["caseExact"] = true.into();
    let given_name = text("givenName", "The first name");
    let family_name = text("familyName", "The last name");
    let name = complex("name", false, "readWrite", &[given_name, family_name]);
    let mut address = text("value", "The mail address, which is the user name");
    let mut kind = text("type", "The kind of the address");
    let mut primary = boolean("primary", "Whether this is the first address");
    for part in [&mut address, &mut kind, &mut primary] {
        part["mutability"] = "readOnly".into();
    }
    let emails = complex("emails", true, "readOnly", &[address, kind, primary]);
    let mut active = boolean("active", "Whether the account is active");
    // A user always has this attribute. A request without it creates an active account.
    active["required"] = true.into();
    json!({
        "schemas": [SCHEMA],
        "id": USER,
        "name": "User",
        "description": "An account",
        "attributes": [
            user_name,
            name,
            text("displayName", "The name that the identity provider displays"),
            active,
            password,
            emails,
        ],
        "meta": {
            "resourceType": "Schema",
            "location": format!("{origin}{BASE}/Schemas/{USER}"),
        },
    })
}

fn text(name: &str, description: &str) -> Value {
    json!({
        "name": name,
        "type": "string",
        "multiValued": false,
        "description": description,
        "required": false,
        "caseExact": false,
        "mutability": "readWrite",
        "returned": "default",
        "uniqueness": "none",
    })
}

fn boolean(name: &str, description: &str) -> Value {
    json!({
        "name": name,
        "type": "boolean",
        "multiValued": false,
        "description": description,
        "required": false,
        "mutability": "readWrite",
        "returned": "default",
    })
}

fn complex(name: &str, multi_valued: bool, mutability: &str, parts: &[Value]) -> Value {
    json!({
        "name": name,
        "type": "complex",
        "multiValued": multi_valued,
        "description": name,
        "required": false,
        "mutability": mutability,
        "returned": "default",
        "subAttributes": parts,
    })
}
