//! The operations on users: `/scim/v2/Users`.

use http::{HeaderValue, StatusCode, header};
use latchmail_accounts::auth::Provisioning;
use latchmail_accounts::auth::provisioning::{
    AccountChanges, AccountToCreate, NewPassword, no_account,
};
use latchmail_core::codes;
use latchmail_core::error::Failure;
use latchmail_directory::accounts::administration::{Names, NamesUpdate, Record};
use serde_json::{Map, Value, json};

use super::MEDIA_TYPE;
use super::attributes::Selection;
use super::filter::Filter;
use super::patch;
use super::user::{Attributes, address_of, location, resource};
use crate::app::App;
use crate::message::{Request, Response, serialized_json};
use crate::provisioning::OperatorState;
use crate::provisioning::request::{changed, entity_tag, if_match, invalid, segment};
use crate::rejection::Rejection;

const LIST_RESPONSE: &str = "urn:ietf:params:scim:api:messages:2.0:ListResponse";

/// The number of users on a page.
const DEFAULT_COUNT: u32 = 100;
/// The maximum number of users on a page.
pub(super) const MAX_COUNT: u32 = 500;

/// Returns a JSON response with the media type of SCIM.
pub(super) fn scim_json(status: StatusCode, value: &Value) -> Response {
    let response = serialized_json(status, value.to_string().into());
    response.with(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE))
}

/// The page that a request selects.
struct Query {
    filter: Filter,
    selection: Selection,
    /// The position of the first user, from 1.
    start_index: u32,
    /// The maximum number of users.
    count: u32,
}

/// Lists users (RFC 7644, section 3.4.2).
pub(super) async fn list<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let number = |name: &str| match request.query(name) {
        None => Ok(None),
        Some(text) => match text.parse::<i64>() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(invalid(format!("{name} must be an integer"))),
        },
    };
    let query = Query {
        filter: filter(request.query("filter"))?,
        selection: selection(request)?,
        start_index: start_index(number("startIndex")?),
        count: count(number("count")?),
    };
    respond_with_list(state, request, &query).await
}

/// Lists users by the parameters in the body (RFC 7644, section 3.4.3).
pub(super) async fn search<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let body: Map<String, Value> = request.json()?;
    let number = |name: &str| match body.get(name).filter(|value| !value.is_null()) {
        None => Ok(None),
        Some(value) => match value.as_i64() {
            Some(number) => Ok(Some(number)),
            None => Err(invalid(format!("{name} must be an integer"))),
        },
    };
    let names = |name: &str| match body.get(name).filter(|value| !value.is_null()) {
        None => Ok(Vec::new()),
        Some(value) => {
            let names = value.as_array().and_then(|names| {
                let names = names.iter().map(Value::as_str);
                names.collect::<Option<Vec<&str>>>()
            });
            names.ok_or_else(|| invalid(format!("{name} must be an array of strings")))
        }
    };
    let text = match body.get("filter").filter(|value| !value.is_null()) {
        None => None,
        Some(Value::String(text)) => Some(text.as_str()),
        Some(_) => return Err(invalid("filter must be a string")),
    };
    let query = Query {
        filter: filter(text)?,
        selection: Selection::new(names("attributes")?, names("excludedAttributes")?)?,
        start_index: start_index(number("startIndex")?),
        count: count(number("count")?),
    };
    respond_with_list(state, request, &query).await
}

fn filter(text: Option<&str>) -> Result<Filter, Rejection> {
    text.map_or_else(|| Ok(Filter::default()), Filter::parse)
}

fn selection(request: &Request) -> Result<Selection, Rejection> {
    let names = |name| request.query(name).unwrap_or_default().split(',');
    Selection::new(names("attributes"), names("excludedAttributes"))
}

/// Returns the position of the first user. A value below 1 counts as 1.
fn start_index(given: Option<i64>) -> u32 {
    let given = given.unwrap_or(1).max(1);
    u32::try_from(given).unwrap_or(u32::MAX)
}

/// Returns the number of users on a page. A negative value counts as 0.
fn count(given: Option<i64>) -> u32 {
    let given = given.unwrap_or_else(|| DEFAULT_COUNT.into());
    u32::try_from(given.clamp(0, MAX_COUNT.into())).unwrap_or(MAX_COUNT)
}

async fn respond_with_list<S: OperatorState>(
    state: &S,
    request: &Request,
    query: &Query,
) -> Result<Response, Rejection> {
    let (total, records) = found(state.app(), query).await?;
    let origin = state.origin_url(request);
    let provisioning = &state.app().auth.provisioning;
    let users = records.iter().map(|record| {
        let mut user = resource(&provisioning.rules, record, &origin);
        query.selection.apply(&mut user);
        Value::Object(user)
    });
    let users: Vec<Value> = users.collect();
    let body = json!({
        "schemas": [LIST_RESPONSE],
        "totalResults": total,
        "startIndex": query.start_index,
        "itemsPerPage": users.len(),
        "Resources": users,
    });
    Ok(scim_json(StatusCode::OK, &body))
}

/// Returns the number of users that match a filter, and those of the page.
async fn found(app: &App, query: &Query) -> Result<(i64, Vec<Record>), Rejection> {
    let accounts = &app.directory.accounts;
    let rules = &app.auth.provisioning.rules;
    let filter = &query.filter;
    let address = filter.user_name.as_ref();
    let address = address.map(|name| address_of(rules, name).to_ascii_lowercase());
    let only = if let Some(id) = &filter.id {
        accounts.record(id).await?
    } else if let Some(address) = &address {
        accounts.record_by_address(address).await?
    } else if let Some(id) = &filter.external_id {
        accounts.record_by_external_id(id).await?
    } else {
        let skip = query.start_index - 1;
        return Ok(accounts
            .records_at(skip, filter.active, query.count)
            .await?);
    };
    let only = only.filter(|record| {
        record.deletes_at.is_none()
            && filter.active.is_none_or(|active| active == record.active)
            && address
                .as_ref()
                .is_none_or(|address| *address == record.address)
            && (filter.external_id.is_none() || filter.external_id == record.names.external_id)
    });
    let total = i64::from(only.is_some());
    let is_on_page = query.start_index == 1 && query.count > 0;
    Ok((total, only.filter(|_| is_on_page).into_iter().collect()))
}

/// Creates a user (RFC 7644, section 3.3).
pub(super) async fn create<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let body: Map<String, Value> = request.json()?;
    let attributes = Attributes::of_resource(&body)?;
    let provisioning = &state.app().auth.provisioning;
    let user_name = attributes.user_name.ok_or_else(no_user_name)?;
    let address = address_of(&provisioning.rules, &user_name);
    let new = AccountToCreate {
        active: attributes.active.unwrap_or(true),
        plan: None,
        admin: false,
        password: attributes
            .password
            .flatten()
            .map_or(NewPassword::None, |text| NewPassword::Plain(text.into())),
        forward_to: None,
        names: Names {
            external_id: attributes.external_id.flatten(),
            user_name: written_name(user_name, &address),
            display_name: attributes.display_name.flatten(),
            first_name: attributes.given_name.flatten(),
            last_name: attributes.family_name.flatten(),
            dob: None,
        },
        address,
    };
    let record = provisioning.create(new, None, &request.origin()).await?;
    let response = user(state, request, StatusCode::CREATED, &record)?;
    let location = location(&record, &state.origin_url(request));
    let location = HeaderValue::try_from(location).map_err(Failure::internal)?;
    Ok(response.with(header::LOCATION, location))
}

/// Shows a user (RFC 7644, section 3.4.1).
pub(super) async fn read<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let record = record(state.app(), request).await?;
    user(state, request, StatusCode::OK, &record)
}

/// Replaces a user (RFC 7644, section 3.5.1). A name that the request does not contain is removed.
/// The state and the password stay as they are if the request does not contain them.
pub(super) async fn replace<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let body: Map<String, Value> = request.json()?;
    let mut attributes = Attributes::of_resource(&body)?;
    if attributes.user_name.is_none() {
        return Err(no_user_name());
    }
    for value in [
        &mut attributes.external_id,
        &mut attributes.display_name,
        &mut attributes.given_name,
        &mut attributes.family_name,
    ] {
        value.get_or_insert(None);
    }
    update(state, request, attributes).await
}

/// Changes a user (RFC 7644, section 3.5.2).
pub(super) async fn modify<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let body: Map<String, Value> = request.json()?;
    update(state, request, patch::changes(&body)?).await
}

async fn update<S: OperatorState>(
    state: &S,
    request: &Request,
    attributes: Attributes,
) -> Result<Response, Rejection> {
    let app = state.app();
    let id = record(app, request).await?.id;
    let provisioning = &app.auth.provisioning;
    let changes = changes_of(provisioning, attributes);
    let (versions, origin) = (if_match(request), request.origin());
    let updated = provisioning.update(&id, changes, versions.as_deref(), &origin);
    let updated = updated.await?.ok_or_else(|| changed("account"))?;
    user(state, request, StatusCode::OK, &updated.after)
}

fn changes_of(provisioning: &Provisioning, attributes: Attributes) -> AccountChanges {
    let address = attributes.user_name.as_ref();
    let address = address.map(|name| address_of(&provisioning.rules, name));
    let user_name = attributes.user_name.zip(address.as_deref());
    let user_name = user_name.map(|(name, address)| written_name(name, address));
    AccountChanges {
        address,
        active: attributes.active,
        password: attributes.password.map(|password| match password {
            Some(text) => NewPassword::Plain(text.into()),
            None => NewPassword::None,
        }),
        names: NamesUpdate {
            external_id: attributes.external_id,
            user_name,
            display_name: attributes.display_name,
            first_name: attributes.given_name,
            last_name: attributes.family_name,
            dob: None,
        },
        ..AccountChanges::default()
    }
}

/// Returns the user name as the client wrote it. Returns `None` if it is the address in lower case.
fn written_name(user_name: String, address: &str) -> Option<String> {
    (user_name != address.to_ascii_lowercase()).then_some(user_name)
}

/// Deletes a user (RFC 7644, section 3.6). The account is disabled, and deleted after the grace
/// period.
pub(super) async fn delete<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let app = state.app();
    let record = record(app, request).await?;
    let (provisioning, origin) = (&app.auth.provisioning, request.origin());
    if let Some(versions) = if_match(request) {
        provisioning.rules.check_managed_here(&record.address)?;
        let changes = AccountChanges {
            active: Some(false),
            ..AccountChanges::default()
        };
        let updated = provisioning.update(&record.id, changes, Some(&versions), &origin);
        updated.await?.ok_or_else(|| changed("account"))?;
    }
    provisioning.close(&record.id, false, &origin).await?;
    app.removals.ensure(&record.id).await;
    let mut response = serialized_json(StatusCode::NO_CONTENT, bytes::Bytes::new());
    response.headers.remove(header::CONTENT_TYPE);
    Ok(response)
}

/// Returns the account whose id is in the path. An account that will be deleted is no user.
async fn record(app: &App, request: &Request) -> Result<Record, Rejection> {
    let found = app
        .directory
        .accounts
        .record(segment(request, "id"))
        .await?;
    let found = found.filter(|record| record.deletes_at.is_none());
    Ok(found.ok_or_else(no_account)?)
}

/// Returns the response with a user.
fn user<S: OperatorState>(
    state: &S,
    request: &Request,
    status: StatusCode,
    record: &Record,
) -> Result<Response, Rejection> {
    let rules = &state.app().auth.provisioning.rules;
    let mut user = resource(rules, record, &state.origin_url(request));
    selection(request)?.apply(&mut user);
    let response = scim_json(status, &Value::Object(user));
    Ok(response.with(header::ETAG, entity_tag(&record.version())?))
}

fn no_user_name() -> Rejection {
    Rejection::bad_request(codes::FIELD_REQUIRED, "userName is required")
}
