package probe
import ("testing";"context";"time";"fmt";"os";"path/filepath";"os/exec";"strings")
func TestZZCost(t *testing.T){
 lib:=uprobeLib(t); dir:=filepath.Dir(lib)
 os.WriteFile(filepath.Join(dir,"b.c"),[]byte(`
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
int aclrtRecordEvent(void*,void*); int aclrtLaunchKernelWithHostArgs(void *, uint32_t, void *, void *, void *, size_t, void *, size_t);
static double now(){struct timespec t;clock_gettime(CLOCK_MONOTONIC,&t);return t.tv_sec*1e9+t.tv_nsec;}
int main(){ getchar(); int n=200000; double a=now(); for(int i=0;i<n;i++)aclrtRecordEvent(0,0); double b=now();
uint64_t args[8]={0}; uint64_t ph[1]={0}; struct {void*p; size_t n;} cfg={0,0};
for(int i=0;i<n;i++) aclrtLaunchKernelWithHostArgs(0,1,0,&cfg,args,64,ph,1); double c=now();
printf("event %.0f launch %.0f\ndone\n",(b-a)/n,(c-b)/n); fflush(stdout); getchar();}`),0o600)
 cmd:=exec.Command("cc","-O2","-o","main","b.c","./libascendcl.so"); cmd.Dir=dir; if o,e:=cmd.CombinedOutput();e!=nil{t.Fatal(string(o))}
 for _,m:=range []string{"none","count","full","nosleep"} {
  for range 2 {
  c:=startTarget(t,"x"); o:=UprobeOptions{PIDs:[]int{c.Process.Pid},RingBytes:64<<20}
  var u *Uprobes; ctx,stop:=context.WithCancel(t.Context()); end:=make(chan error,1); s:=&nop{}
  switch m { case "none": end<-nil
  case "count": o.CountOnly=true; u=attachUprobes(t,&o); end<-nil
  case "nosleep": o.noSleep=true; fallthrough
  case "full": u=attachUprobes(t,&o); go func(){end<-u.Run(ctx,s)}() }
  said:=strings.TrimSpace(c.run(t)); t0:=time.Now(); stop(); if e:=<-end;e!=nil{t.Fatal(e)}
  fmt.Println(m,said,"calls",s.n,"lost",s.lost,"drain",time.Since(t0)); if u!=nil{u.Close()} ; c.in.Close(); c.Wait() }
 }
}
type nop struct{n int;lost uint64}
func(s*nop)Process(*Process)error{return nil}
func(s*nop)Call(*Call)error{s.n++;return nil}
func(s*nop)Payload(*Payload)error{return nil}
func(s*nop)Gap(g*Gap)error{s.lost+=g.Calls;return nil}
