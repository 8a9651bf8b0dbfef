// A client with the C++ stubs of docs/callers.md. It reads the account, and the reason of an error.
#include <grpcpp/grpcpp.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "easel/v1/account_service.grpc.pb.h"
#include "easel/v1/error.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

static grpc::Status getAccount(easel::v1::AccountService::Stub& accounts, const std::string& key, easel::v1::GetAccountResponse* answer) {
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer " + key);
  return accounts.GetAccount(&context, {}, answer);
}

// reason returns the reason of an error, a value of the contract's enum.
static easel::v1::ErrorReason reason(const grpc::Status& error) {
  google::rpc::Status status;
  google::rpc::ErrorInfo info;
  easel::v1::ErrorReason found = easel::v1::ERROR_REASON_UNSPECIFIED;
  status.ParseFromString(error.error_details());
  for (const auto& detail : status.details()) {
    if (detail.UnpackTo(&info)) easel::v1::ErrorReason_Parse(info.reason(), &found);
  }
  return found;
}

int main() {
  easel::v1::AccountService::Stub accounts(grpc::CreateChannel(std::getenv("EASEL_ADDR"), grpc::InsecureChannelCredentials()));
  easel::v1::GetAccountResponse answer;
  if (auto status = getAccount(accounts, std::getenv("EASEL_API_KEY"), &answer); !status.ok()) {
    std::cerr << status.error_message() << "\n";
    return 1;
  }
  std::cout << answer.account().balance_cents() << " " << answer.account().currency_code() << "\n";
  std::cout << easel::v1::ErrorReason_Name(reason(getAccount(accounts, "wrong", &answer))) << "\n";
}
