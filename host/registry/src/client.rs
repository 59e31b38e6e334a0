//! Requests to a registry, with limits on time and size. The client authenticates if the registry
//! requires it, and follows redirects of content. Credentials go to the registry, and to the server
//! of tokens that the registry names, but never to the target of a redirect.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, StatusCode, Uri, header};
use latchmail_core::error::StartError;
use latchmail_net::fetch::{Fetch, Hosts, OpenResponse, Request, Target};
use serde::Deserialize;
use tokio::time::timeout;
use url::Url;
use zeroize::Zeroizing;

use crate::challenge::Challenge;
use crate::credentials::Credentials;
use crate::error::Error;
use crate::reference::Reference;

/// The maximum number of redirects of one request.
const MAX_REDIRECTS: usize = 5;

/// The maximum time to receive one response.
const TRANSFER_TIMEOUT: Duration = Duration::from_mins(5);

/// The maximum size of the response with a token, in bytes.
const MAX_TOKEN_RESPONSE: u64 = 64 * 1024;

/// The client for all registries.
#[derive(Debug)]
pub(crate) struct Client {
    fetch: Fetch,
    /// The servers with which an unencrypted connection is allowed.
    plain: Vec<Target>,
    credentials: Credentials,
}

/// The requests to one repository. The session has the authorization of the repository.
pub(crate) struct Session<'c> {
    client: &'c Client,
    host: &'c str,
    repository: &'c str,
    server: Target,
    actions: &'static str,
    authorization: Option<Zeroizing<String>>,
}

/// A request to a repository.
pub(crate) struct Call<'c> {
    /// The content, for error messages.
    pub(crate) what: &'c str,
    pub(crate) method: &'static str,
    pub(crate) url: Url,
    pub(crate) headers: Vec<(HeaderName, String)>,
    pub(crate) body: Bytes,
    /// The maximum size of the body of the response, in bytes.
    pub(crate) limit: u64,
}

/// A response. The body of an error is empty, because it is not used.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// The response of a server of tokens.
#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl Client {
    /// Creates the client. `plain` contains `host:port` of servers without encryption.
    ///
    /// # Errors
    /// Returns an error if an entry of `plain` is invalid.
    pub(crate) fn new(
        fetch: Fetch,
        plain: &[String],
        credentials: Credentials,
    ) -> Result<Self, StartError> {
        let target = |entry: &String| {
            target(&format!("http://{entry}/")).ok_or_else(|| {
                StartError::new(format!(
                    "`registry.plain_http` contains `{entry}`, which is not host:port"
                ))
            })
        };
        let plain = plain.iter().map(target).collect::<Result<_, _>>()?;
        Ok(Self {
            fetch,
            plain,
            credentials,
        })
    }

    /// Starts a session for a repository. Sends no request. `actions` are the actions that the
    /// token must allow, such as `pull`.
    ///
    /// # Errors
    /// Returns [`Error::Redirect`] if the host of the reference is invalid.
    pub(crate) fn session<'c>(
        &'c self,
        reference: &'c Reference,
        actions: &'static str,
    ) -> Result<Session<'c>, Error> {
        let server = |scheme: &str| target(&format!("{scheme}://{}/", reference.host));
        let plain = server("http").filter(|server| self.plain.contains(server));
        let server = plain.or_else(|| server("https"));
        Ok(Session {
            client: self,
            host: &reference.host,
            repository: &reference.repository,
            server: server.ok_or_else(|| Error::Redirect(reference.to_string()))?,
            actions,
            authorization: None,
        })
    }

    /// Returns the server of a URL, if connections to it are allowed.
    fn allowed(&self, url: &Url) -> Result<Target, Error> {
        let server = target(url.as_str()).ok_or_else(|| Error::Redirect(host_of(url)))?;
        if server.tls || self.plain.contains(&server) {
            Ok(server)
        } else {
            Err(Error::NotEncrypted(host_of(url)))
        }
    }

    /// Sends a request without following redirects.
    async fn open(
        &self,
        server: Target,
        call: &Call<'_>,
        url: &Url,
        authorization: Option<&str>,
    ) -> Result<OpenResponse, Error> {
        let headers = call.headers.iter();
        let mut headers: Vec<_> = headers
            .map(|(name, value)| (name.to_string(), value.clone()))
            .collect();
        if let Some(authorization) = authorization {
            headers.push((header::AUTHORIZATION.to_string(), authorization.to_owned()));
        }
        let request = Request {
            method: call.method.to_owned(),
            url: url.to_string(),
            headers,
            body: call.body.clone(),
            ..Request::default()
        };
        self.fetch
            .open(&Hosts::only(server), request)
            .await
            .map_err(|error| Error::Unreachable(error.to_string()))
    }
}

impl Session<'_> {
    /// Returns the URL of a path in the repository.
    ///
    /// # Errors
    /// Returns [`Error::Redirect`] if the URL is invalid.
    pub(crate) fn url(&self, path: &str) -> Result<Url, Error> {
        let scheme = if self.server.tls { "https" } else { "http" };
        let url = format!("{scheme}://{}/v2/{}/{path}", self.host, self.repository);
        Url::parse(&url).map_err(|_| Error::Redirect(url))
    }

    /// Sends a request. If the registry requires authentication, authenticates and sends the
    /// request again.
    ///
    /// # Errors
    /// Returns an error if there is no complete response, or if the authentication fails. A
    /// response with another error status is not an error.
    pub(crate) async fn send(&mut self, call: &Call<'_>) -> Result<Response, Error> {
        let response = self.send_once(call).await?;
        if response.status != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        self.authorization = Some(self.authorize(&response.headers).await?);
        let response = self.send_once(call).await?;
        if response.status == StatusCode::UNAUTHORIZED {
            return Err(self.unauthorized());
        }
        Ok(response)
    }

    /// Sends a request, and checks that the response is successful.
    ///
    /// # Errors
    /// Returns an error if there is no successful response.
    pub(crate) async fn request(&mut self, call: &Call<'_>) -> Result<Response, Error> {
        let response = self.send(call).await?;
        match response.status {
            status if status.is_success() => Ok(response),
            StatusCode::NOT_FOUND => Err(Error::NotFound(call.what.to_owned())),
            StatusCode::FORBIDDEN => Err(self.unauthorized()),
            status => Err(Error::Status {
                what: call.what.to_owned(),
                status,
            }),
        }
    }

    fn unauthorized(&self) -> Error {
        Error::Unauthorized(self.host.to_owned())
    }

    /// Sends a request, and follows redirects of GET requests.
    async fn send_once(&self, call: &Call<'_>) -> Result<Response, Error> {
        let mut url = call.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let server = self.client.allowed(&url)?;
            let authorization = self.authorization.as_deref().map(String::as_str);
            let is_registry = server == self.server;
            let authorization = authorization.filter(|_| is_registry);
            let opened = self.client.open(server, call, &url, authorization).await?;
            let next = location(&url, &opened.headers)
                .filter(|_| call.method == "GET" && opened.status.is_redirection());
            match next {
                Some(next) => url = next,
                // The credentials are not for this server, so its challenge is not followed.
                None if opened.status == StatusCode::UNAUTHORIZED && !is_registry => {
                    return Err(Error::Status {
                        what: call.what.to_owned(),
                        status: opened.status,
                    });
                }
                None => return receive(opened, call.what, call.limit).await,
            }
        }
        Err(Error::Redirect(call.what.to_owned()))
    }

    /// Returns the header `Authorization` that the registry requires in the response `headers`.
    async fn authorize(&self, headers: &HeaderMap) -> Result<Zeroizing<String>, Error> {
        let basic = self.client.credentials.basic(self.host)?;
        let (realm, service) = match Challenge::of(headers) {
            Some(Challenge::Bearer { realm, service }) => (realm, service),
            Some(Challenge::Basic) => return basic.ok_or_else(|| self.unauthorized()),
            None => return Err(self.unauthorized()),
        };
        let mut url = Url::parse(&realm).map_err(|_| Error::Redirect(self.host.to_owned()))?;
        let scope = format!("repository:{}:{}", self.repository, self.actions);
        url.query_pairs_mut()
            .extend_pairs(service.map(|service| ("service", service)))
            .append_pair("scope", &scope);
        let server = self.client.allowed(&url)?;
        let call = Call {
            what: "a token",
            method: "GET",
            url,
            headers: Vec::new(),
            body: Bytes::new(),
            limit: MAX_TOKEN_RESPONSE,
        };
        let basic = basic.as_deref().map(String::as_str);
        let opened = self.client.open(server, &call, &call.url, basic).await?;
        if !opened.status.is_success() {
            return Err(self.unauthorized());
        }
        let response = receive(opened, call.what, call.limit).await?;
        // The error does not contain the text of the server, which may be a token.
        let token = serde_json::from_slice::<Token>(&response.body)
            .ok()
            .and_then(|response| response.token.or(response.access_token))
            .ok_or_else(|| Error::malformed(call.what, "the response contains no token"))?;
        Ok(Zeroizing::new(format!("Bearer {token}")))
    }
}

/// Receives the body of a response.
async fn receive(mut opened: OpenResponse, what: &str, limit: u64) -> Result<Response, Error> {
    let body = if opened.status.is_success() {
        let late = |_| Error::Unreachable(format!("timeout of the response with {what}"));
        let receiving = body(&mut opened, what, limit);
        timeout(TRANSFER_TIMEOUT, receiving).await.map_err(late)??
    } else {
        Bytes::new()
    };
    Ok(Response {
        status: opened.status,
        headers: opened.headers,
        body,
    })
}

async fn body(opened: &mut OpenResponse, what: &str, limit: u64) -> Result<Bytes, Error> {
    let mut body = BytesMut::new();
    while let Some(chunk) = opened.chunk().await.map_err(Error::Unreachable)? {
        if (body.len() + chunk.len()) as u64 > limit {
            return Err(Error::TooLarge {
                what: what.to_owned(),
                limit,
            });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// Returns the URL in the header `Location`, which can be relative to `url`.
pub(crate) fn location(url: &Url, headers: &HeaderMap) -> Option<Url> {
    url.join(headers.get(header::LOCATION)?.to_str().ok()?).ok()
}

fn target(url: &str) -> Option<Target> {
    Target::of(&url.parse::<Uri>().ok()?)
}

/// Returns the host of a URL. The rest of the URL can contain a secret.
fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}
