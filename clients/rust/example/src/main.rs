//! Orders one render from Easel, watches it until it is finished, and saves its file.
//! You can kill the program at any time. To continue with the same order, run the same command again.

use std::{env, error::Error, fs, io::Write, process::ExitCode, time::Duration};

use prost_types::{Struct, Value, value::Kind};
use tokio::time::{sleep, timeout};
use tonic::{Code, Request, Response, Status, service::interceptor::InterceptedService, transport::Channel};
use tonic_types::StatusExt;

mod easel {
    tonic::include_proto!("easel.v1");
}
use easel::{generation_service_client::GenerationServiceClient, watch_generation_response::Event, *};

type Failure = Box<dyn Error + Send + Sync>;
type Client = GenerationServiceClient<InterceptedService<Channel, fn(Request<()>) -> Result<Request<()>, Status>>>;

const HEARTBEAT: Duration = Duration::from_secs(3);
const LOST: [Code; 3] = [Code::Unavailable, Code::Unknown, Code::Cancelled]; // tonic's codes for a lost connection
const FINAL: [Code; 6] = [
    Code::NotFound,
    Code::Unauthenticated,
    Code::PermissionDenied,
    Code::InvalidArgument,
    Code::FailedPrecondition,
    Code::Unimplemented,
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let [model, prompt, file] = &env::args().skip(1).collect::<Vec<_>>()[..] else {
        eprintln!("usage: easel-example MODEL PROMPT FILE");
        return ExitCode::from(2);
    };
    let ended = timeout(Duration::from_secs(600), run(model, prompt, file)).await;
    let Err(error) = ended.unwrap_or(Err(Status::deadline_exceeded("it took too long").into())) else {
        return ExitCode::SUCCESS;
    };
    let status = Status::from_error(error);
    eprintln!("failed: {:?} {}", status.code(), status.message());
    for detail in status.get_error_details_vec() {
        eprintln!("  {detail:?}");
    }
    ExitCode::FAILURE
}

async fn run(model: &str, prompt: &str, file: &str) -> Result<(), Failure> {
    let address = env::var("EASEL_ADDR").unwrap_or("localhost:50051".into());
    let channel = Channel::from_shared(format!("http://{address}"))? // https if the server has a certificate
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(5))
        .connect_lazy();
    let client: &Client = &GenerationServiceClient::with_interceptor(channel, authorize);
    let prompt = Value { kind: Some(Kind::StringValue(prompt.into())) };
    let inputs = Some(Struct { fields: [("prompt".into(), prompt)].into() });
    let question = QuoteGenerationRequest { model_id: model.into(), inputs: inputs.clone(), ..Default::default() };
    let answer = retried(|| async { client.clone().quote_generation(question.clone()).await }).await?;
    let price = answer.quote.unwrap_or_default().price_cents;
    println!("price: {price} cents");
    let key_file = &format!("{file}.key"); // stored before the order is sent, so that a rerun does not order twice
    if fs::read(key_file).unwrap_or_default().is_empty() {
        fs::write(key_file, uuid::Uuid::new_v4().to_string())?;
    }
    let order = CreateGenerationRequest {
        model_id: model.into(),
        inputs,
        idempotency_key: fs::read_to_string(key_file)?,
        max_cost_cents: Some(price),
        ..Default::default()
    };
    let answer = retried(|| async { client.clone().create_generation(order.clone()).await }).await?;
    let mut render = answer.generation.ok_or("the answer has no render")?;
    println!("ordered: {}", render.generation_id);
    let mut told = Duration::ZERO;
    while let Err(status) = watch(client.clone(), &mut render, &mut told).await {
        if FINAL.contains(&status.code()) {
            return Err(status.into()); // a retry can't help
        }
        again(&status, told).await; // a stream ends without an error only when the render is finished
    }
    if render.state() == State::Succeeded {
        download(client.clone(), &render.generation_id, file).await?;
        return Ok(fs::remove_file(key_file)?); // the next run places a new order
    }
    fs::remove_file(key_file)?;
    Err(format!("{}: {}", render.state().as_str_name(), render.failure_message).into())
}

fn authorize(mut request: Request<()>) -> Result<Request<()>, Status> {
    let key = env::var("EASEL_API_KEY").unwrap_or_default();
    let value = format!("Bearer {key}").parse().map_err(|_| Status::unauthenticated("EASEL_API_KEY is not a valid header value"))?;
    request.metadata_mut().insert("authorization", value);
    Ok(request)
}

/// Retries a unary call as the service config of the stubs defines, because tonic does not read that config.
async fn retried<T, F: Future<Output = Result<Response<T>, Status>>>(call: impl Fn() -> F) -> Result<T, Status> {
    for wait in [500, 1000, 2000, 4000] {
        match call().await {
            Err(status) if LOST.contains(&status.code()) => {
                sleep(asked(&status).max(Duration::from_millis(wait))).await
            }
            answer => return answer.map(Response::into_inner),
        }
    }
    call().await.map(Response::into_inner)
}

/// Returns the delay that the server requests before the next attempt.
fn asked(status: &Status) -> Duration {
    status.get_details_retry_info().and_then(|info| info.retry_delay).unwrap_or_default()
}

/// Waits before the next attempt: for the delay that the server requests, but at least for a random time
/// of half a second to a second.
async fn again(status: &Status, told: Duration) {
    println!("again: {:?} {}", status.code(), status.message());
    let spread = Duration::from_millis(500 + u64::from(uuid::Uuid::new_v4().as_bytes()[0]) * 2);
    sleep(asked(status).max(told).max(spread)).await;
}

/// Updates the render from one stream, until the stream ends or three heartbeats are missing. told is set
/// to the delay that a server requests when it closes the stream.
async fn watch(mut client: Client, render: &mut Generation, told: &mut Duration) -> Result<(), Status> {
    *told = Duration::ZERO;
    let silent = |_| Status::cancelled("three heartbeats are missing");
    let request = WatchGenerationRequest {
        generation_id: render.generation_id.clone(),
        known_etag: render.etag.clone(),
        heartbeat_interval: HEARTBEAT.try_into().ok(),
        ..Default::default()
    };
    let mut stream = timeout(3 * HEARTBEAT, client.watch_generation(request)).await.map_err(silent)??.into_inner();
    while let Some(message) = timeout(3 * HEARTBEAT, stream.message()).await.map_err(silent)?? {
        match message.event {
            Some(Event::Update(update)) => *render = update.generation.unwrap_or_default(),
            Some(Event::Heartbeat(Heartbeat { typical_remaining: Some(left), .. })) => {
                println!("{} s left", left.seconds)
            }
            Some(Event::Closing(closing)) => {
                *told = closing.retry_delay.and_then(|delay| delay.try_into().ok()).unwrap_or_default()
            }
            _ => (),
        }
        println!("watching: {}", render.state().as_str_name());
    }
    Ok(())
}

/// Downloads the bytes, with a new stream after each failure, and renames the file when it is complete.
async fn download(client: Client, id: &str, path: &str) -> Result<(), Failure> {
    let part = format!("{path}.{}.part", std::process::id());
    let mut file = fs::File::create_new(&part)?; // creates a new file and follows no link
    let mut rest = DownloadGenerationRequest { generation_id: id.into(), ..Default::default() };
    while let Err(error) = fetch(client.clone(), &mut rest, &mut file).await {
        match error.downcast_ref::<Status>() {
            Some(status) if LOST.contains(&status.code()) => again(status, Duration::ZERO).await,
            Some(status) if matches!(status.code(), Code::Internal | Code::ResourceExhausted) => {
                again(status, Duration::ZERO).await
            }
            _ => return Err(error),
        }
    }
    Ok(fs::rename(part, path)?)
}

async fn fetch(mut client: Client, rest: &mut DownloadGenerationRequest, file: &mut fs::File) -> Result<(), Failure> {
    let mut stream = client.download_generation(rest.clone()).await?.into_inner();
    while let Some(message) = stream.message().await? {
        let chunk = message.chunk.unwrap_or_default();
        if chunk.offset != rest.read_offset || crc32c::crc32c(&chunk.data) != chunk.crc32c {
            return Err("bytes arrived damaged".into());
        }
        file.write_all(&chunk.data)?;
        rest.read_offset += chunk.data.len() as i64;
        rest.etag = chunk.info.map_or(std::mem::take(&mut rest.etag), |info| info.etag); // the next stream must continue the same content
        println!("downloaded: {} bytes", rest.read_offset);
    }
    Ok(())
}
